"""Attention as plain products against SDPA in float64, and when it is used."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from harness.encoders.backbone import Encoder
from harness.encoders.plain_attention import attended, is_faster, probabilities
from harness.encoders.prefix_attention import determine
from tests.rows_and_models import text


def states(heads: int, length: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(3, heads, length, 8, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_equals_sdpa(masked: bool, groups: int) -> None:
    torch.manual_seed(0)
    query, key, value = (
        states(4, 5, torch.float64),
        *(states(4 // groups, 7, torch.float64) for _ in range(2)),
    )
    mask = torch.rand(3, 1, 5, 7) < 0.6 if masked else None
    if mask is not None:
        mask[..., 0] = True
    ours = attended(query, key, value, mask, rate=0, scaling=0.3)
    theirs = functional.scaled_dot_product_attention(
        query, key, value, mask, scale=0.3, enable_gqa=groups > 1
    ).transpose(1, 2)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    gradients, wanted = (
        torch.autograd.grad((each * weights).sum(), (query, key, value)) for each in (ours, theirs)
    )
    for mine, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(mine, other)


def test_a_row_that_sees_nothing_is_finite() -> None:
    mask = torch.tensor([[True, False], [False, False]])
    found = probabilities(torch.randn(2, 2), mask, 0)
    assert found[0].equal(torch.tensor([1.0, 0.0]))
    assert found.isfinite().all()


def test_dropout_falls_on_probabilities() -> None:
    torch.manual_seed(0)
    scores = torch.zeros(100, 100)
    found = probabilities(scores, None, 0.5)
    assert found.unique().tolist() == pytest.approx([0.0, 0.02])


def test_half_precision_is_summed_in_float32() -> None:
    scores = torch.zeros(1, 3000, dtype=torch.bfloat16)
    assert float(probabilities(scores, None, 0).float().sum()) == pytest.approx(1, abs=5e-3)


class Attentions(TorchFunctionMode):
    """Notes which attentions run in a block, and the shares of the plain one that are 0."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.zeros: list[float] = []

    def __torch_function__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names[called.__name__] += called in (scaled_dot_product_attention, Tensor.softmax)
        if called is Tensor.matmul and self.names["softmax"] > len(self.zeros):
            self.zeros.append(float((args[0] == 0).float().mean()))
        return called(*args, **(kwargs or {}))

    def ran(self) -> list[str]:
        return sorted(name for name, count in self.names.items() if count)


def test_it_is_used_in_training_on_a_cpu(tiny_encoder: Path) -> None:
    encoder, batch = Encoder(str(tiny_encoder), dropout=0.25), text([12] * 8)
    with Attentions() as training:
        encoder.train()(batch)
    assert training.ran() == ["softmax"]
    assert training.zeros == pytest.approx([0.25] * 2, abs=0.03)
    encoder.eval()
    with Attentions() as scoring:
        encoder(batch)
    assert scoring.ran() == ["scaled_dot_product_attention"]
    with torch.autocast("cpu", torch.bfloat16):
        with Attentions() as rounded:
            encoder(batch)
        with torch.no_grad(), Attentions() as kept:
            encoder(batch)
    assert rounded.ran() == ["softmax"], "the backward pass of SDPA in bf16 is slow"
    assert rounded.zeros == [0, 0]
    assert kept.ran() == ["scaled_dot_product_attention"]
    query = torch.empty(1, 1, 1, 1, device="meta")
    assert not is_faster(query, None, 0.1), "a GPU has fused kernels"
    assert not is_faster(torch.empty(1, 1, 1, 1), torch.zeros(1), 0.1), "a mask that is added"


# The backward pass of attention is deterministic where deterministic algorithms are asked for.

MODES = {"default": 0, "warn": 1, "error": 2}


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    before = torch.get_deterministic_debug_mode()
    yield
    torch.set_deterministic_debug_mode(before)


@pytest.mark.parametrize(("asked", "during"), [("default", 0), ("warn", 2), ("error", 2)])
def test_it_is_demanded_for_the_attention_alone(asked: str, during: int) -> None:
    torch.set_deterministic_debug_mode(asked)
    query, key, value = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    attended = scaled_dot_product_attention(query, key, value)
    states = attended.transpose(1, 2).contiguous()
    determine(states)
    seen: list[int] = []
    # It is called behind the one of `determine`, and in front of the operation.
    attended.grad_fn.register_prehook(lambda _: seen.append(torch.get_deterministic_debug_mode()))
    query.register_hook(lambda _: seen.append(torch.get_deterministic_debug_mode()))
    states.square().sum().backward()
    assert seen == [during, MODES[asked]]
    assert torch.get_deterministic_debug_mode() == MODES[asked]


def test_without_gradients_nothing_happens() -> None:
    with torch.no_grad():
        determine(scaled_dot_product_attention(*torch.randn(3, 2, 3, 5, 8)))


def test_other_operations_are_left_alone() -> None:
    torch.set_deterministic_debug_mode("warn")
    first = torch.randn(3, 3, requires_grad=True)
    determine((first @ first).softmax(-1))
    (first @ first).sum().backward()
    assert torch.get_deterministic_debug_mode() == 1
