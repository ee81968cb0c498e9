"""Flash attention over rows of any length: what its kernel gets, and what it would give."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.encoders import variable_length
from harness.encoders.backbone import Encoder
from harness.encoders.unpadding import TOKENS_MULTIPLE, Unpadded
from tests.rows_and_models import HEADS, LAYERS, LENGTHS, ROWS, random_model, text

SIZE, PROMPTS = 8, 3
TOKENS = -(-sum(LENGTHS) // TOKENS_MULTIPLE) * TOKENS_MULTIPLE
ORDER = np.argsort(LENGTHS, kind="stable")


def unpadded() -> Unpadded:
    return Unpadded(text().attention_mask.bool().numpy(), torch.device("cpu"))


@pytest.mark.parametrize("prompts", [0, PROMPTS])
def test_equals_loops_in_float64(prompts: int) -> None:
    torch.manual_seed(0)
    layout = unpadded()
    states = torch.randn(3, 1, HEADS, TOKENS, SIZE, dtype=torch.float64)
    front = torch.randn(2, ROWS, HEADS, prompts, SIZE, dtype=torch.float64)
    pair = front if prompts else (None, None)
    outputs = variable_length.attended(layout, *states, *pair, rate=0.0, scaling=0.3)
    assert outputs.shape == (1, TOKENS, HEADS, SIZE)
    query, key, value = states[:, 0].numpy()
    first = 0
    for row in ORDER:
        for head in range(HEADS):
            own = slice(first, first + LENGTHS[row])
            keys = np.concatenate([front[0, row, head].numpy(), key[head, own]])
            values = np.concatenate([front[1, row, head].numpy(), value[head, own]])
            for token in range(own.start, own.stop):
                weights = np.exp(0.3 * keys @ query[head, token])
                expected = weights @ values / weights.sum()
                assert np.abs(outputs[0, token, head].numpy() - expected).max() < 1e-12
        first += LENGTHS[row]
    assert first == sum(LENGTHS) < TOKENS, "the batch has a tail"
    assert outputs.isfinite().all()


@pytest.mark.parametrize("prompts", [0, PROMPTS])
def test_torch_has_the_kernel_and_its_backward_pass(prompts: int) -> None:
    """On the device `meta` operators look at shapes, and compute nothing."""
    layout = unpadded()
    meta = torch.device("meta")
    layout.mask, layout.order = text().attention_mask.bool().to(meta), layout.order.to(meta)
    made = {"device": meta, "dtype": torch.bfloat16, "requires_grad": True}
    states = [torch.empty(1, HEADS, TOKENS, SIZE, **made) for _ in range(3)]
    pair: Any = (None, None)
    if prompts:
        pair = [torch.empty(ROWS, HEADS, prompts, SIZE, **{**made, "dtype": None}) for _ in "kv"]
    outputs = variable_length.attended(layout, *states, *pair, rate=0.1, scaling=0.3)
    assert outputs.shape == (1, TOKENS, HEADS, SIZE)
    assert outputs.grad_fn is not None
    outputs.sum().backward()
    leaves = [*states, *(pair if prompts else ())]
    assert [leaf.grad.shape for leaf in leaves] == [leaf.shape for leaf in leaves]


def test_other_sizes_of_heads_stay_in_padded_blocks(tmp_path: Path, flash: list[float]) -> None:
    """SDPA fills them up for its kernel, which nobody does here."""
    for size, calls in ((SIZE, LAYERS), (SIZE + 4, 0)):
        flash.clear()
        encoder = Encoder(str(random_model("bert", tmp_path, hidden_size=HEADS * size)))
        assert encoder(text()).isfinite().all()
        assert len(flash) == calls


def test_dropout_acts_in_training_alone(tiny_encoder: Any, flash: list[float]) -> None:
    encoder = Encoder(str(tiny_encoder), dropout=0.25)
    for trains in (True, False):
        encoder.train(trains)(text())
    assert flash == [0.25, 0.25, 0.0, 0.0]
