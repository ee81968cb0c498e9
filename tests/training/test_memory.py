"""A trial's memory is its own, also in a process that has run others."""

import pytest
import torch

from harness.training.memory import peak_memory

PIECES, BYTES = 4000, 60_000


@pytest.mark.slow
def test_what_was_freed_before_does_not_count() -> None:
    """The C library would keep freed pieces between which something is left."""
    freed, kept = [], []
    for _ in range(PIECES):
        freed.append(b"x" * BYTES)
        kept.append(b"y" * 600)
    with peak_memory(torch.device("cpu")) as before:
        pass
    freed.clear()
    with peak_memory(torch.device("cpu")) as after:
        pass
    assert len(kept) == PIECES
    assert before.host - after.host > 0.8 * PIECES * BYTES / 2**20
