"""A trial's memory is its own, and a loss that is not finite is named."""

import math

import pytest
import torch

from harness.errors import TrialFailure
from harness.plugin.stage import Stage
from harness.training.memory import peak_memory
from harness.training.steps import FiniteLosses

# A trial's memory is its own, also in a process that has run others.

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


# A loss that is not finite is named with its step and its stage.

ONE = Stage("one", {}, {}, {"first": 1.0})
TWO = Stage("two", {}, {}, {"first": 1.0, "second": 0.5})


def note(watch: FiniteLosses, stage: Stage, step: int, *values: float) -> None:
    losses = dict(zip(stage.losses, map(torch.tensor, values), strict=True))
    watch.note(stage, step, losses)


def test_at_once_the_step_itself_fails() -> None:
    watch = FiniteLosses(at_once=True)
    note(watch, TWO, 1, 0.5, 2.0)
    with pytest.raises(TrialFailure) as failure:
        note(watch, TWO, 2, 0.5, math.inf)
    assert str(failure.value) == 'the loss "second" is inf in step 2 (stage "two")'


def test_read_later_the_first_bad_step_is_named() -> None:
    """As on a GPU: the numbers of many steps are read together."""
    watch = FiniteLosses(at_once=False)
    note(watch, ONE, 1, 0.5)
    watch.check()
    note(watch, ONE, 2, 0.5)
    note(watch, TWO, 3, 1.0, math.nan)
    note(watch, TWO, 4, math.nan, math.nan)
    with pytest.raises(TrialFailure) as failure:
        watch.check()
    assert str(failure.value) == 'the loss "second" is nan in step 3 (stage "two")'


def test_what_was_read_is_not_read_again() -> None:
    watch = FiniteLosses(at_once=False)
    watch.check()
    note(watch, ONE, 1, 0.5)
    watch.check()
    watch.check()
