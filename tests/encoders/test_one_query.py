"""One position of the last layer equals that position of the whole layer."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from harness.choices import LowRank
from harness.data.batching import TextBatch
from harness.encoders.backbone import Encoder
from harness.encoders.fast_paths import WITH_BERT_ATTENTION
from harness.encoders.reach import KeyValues, Reach, select
from tests.rows_and_models import LENGTHS, ends, prefix_of, random_model, text

Compute = Callable[[], Tensor]


def gradients(encoder: Encoder, compute: Compute, *leaves: Tensor) -> tuple[Tensor, list[Tensor]]:
    result = compute()
    weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)
    parameters = [each for each in (*encoder.parameters(), *leaves) if each.requires_grad]
    derivatives = torch.autograd.grad((result * weights).sum(), parameters, allow_unused=True)
    return result.detach(), [
        torch.zeros_like(each) if one is None else one
        for one, each in zip(derivatives, parameters, strict=True)
    ]


def assert_same(encoder: Encoder, one: Compute, other: Compute, *leaves: Tensor) -> None:
    (mine, ours), (whole, theirs) = (gradients(encoder, each, *leaves) for each in (one, other))
    torch.testing.assert_close(mine, whole, rtol=1e-9, atol=1e-9)
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-7, atol=1e-9)


def where_of(batch: TextBatch) -> tuple[Tensor, Tensor]:
    """The index of the last real position of each row."""
    return torch.arange(len(batch.input_ids)), ends(batch)


@pytest.mark.slow
@pytest.mark.parametrize("unpads", [True, False])
@pytest.mark.parametrize("family", WITH_BERT_ATTENTION)
def test_every_family(family: str, unpads: bool, tmp_path: Path) -> None:
    encoder, batch = Encoder(str(random_model(family, tmp_path))).double().eval(), text()
    encoder.unpads = unpads
    assert_same(encoder, lambda: encoder.at(batch, 0), lambda: encoder(batch)[:, 0])
    assert_same(
        encoder, lambda: encoder.at(batch, ends(batch)), lambda: encoder(batch)[where_of(batch)]
    )


@pytest.mark.parametrize("unpads", [True, False])
@pytest.mark.parametrize("visible", [True, False])
@pytest.mark.parametrize("lengths", [LENGTHS, [5, 5, 5, 5]], ids=["padding", "no padding"])
def test_prompts(tiny_encoder: Path, unpads: bool, visible: bool, lengths: list[int]) -> None:
    encoder = Encoder(str(tiny_encoder)).double().eval()
    encoder.unpads = unpads
    batch = text(lengths)
    made, leaves = prefix_of(visible)
    rows = slice(0, len(batch.input_ids))
    keys, values = (tuple(e[rows].double() for e in part) for part in (made.keys, made.values))
    prefix = KeyValues(keys, values, None if made.visible is None else made.visible[rows])
    reach: Reach = {"prefix": prefix, "position_offset": 3}
    assert_same(
        encoder,
        lambda: encoder.at(batch, ends(batch), **reach),
        lambda: encoder(batch, **reach)[where_of(batch)],
        *leaves,
    )


class Calls:
    """Number of rows of states that the keys of the last layer are made for."""

    def __init__(self, encoder: Encoder) -> None:
        self.made: list[int] = []
        self.key = encoder.model.encoder.layer[-1].attention.self.key
        self.key.register_forward_pre_hook(lambda _, inputs: self.made.append(inputs[0].shape[1]))


def test_keys_of_the_last_layer_are_not_made(tiny_encoder: Path) -> None:
    encoder, batch = Encoder(str(tiny_encoder)), text()
    calls = Calls(encoder)
    encoder.cls(batch)
    assert not calls.made
    encoder(batch)
    assert calls.made


def test_a_key_that_is_changed_on_its_way_is_made(tiny_encoder: Path) -> None:
    encoder, batch = Encoder(str(tiny_encoder)).double().eval(), text()
    calls = Calls(encoder)
    plain = encoder.at(batch, ends(batch))
    calls.key.register_forward_hook(lambda _m, _i, output: output.flip(-1))
    assert_same(
        encoder, lambda: encoder.at(batch, ends(batch)), lambda: encoder(batch)[where_of(batch)]
    )
    assert calls.made
    assert not torch.allclose(encoder.at(batch, ends(batch)), plain)


def test_low_rank_changes(tiny_encoder: Path) -> None:
    encoder = Encoder(str(tiny_encoder), low_rank=LowRank(3, 6.0)).double().eval()
    for name, parameter in encoder.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)
    batch = text()
    assert_same(
        encoder, lambda: encoder.at(batch, ends(batch)), lambda: encoder(batch)[where_of(batch)]
    )


def test_dropout_falls_on_the_same_probabilities(tiny_encoder: Path) -> None:
    """The same seed gives the same result, whether keys and values are made or not."""
    encoder, states = Encoder(str(tiny_encoder), dropout=0.4).double().train(), []
    batch, key = text(), encoder.model.encoder.layer[-1].attention.self.key
    prefix, _ = prefix_of(visible=False)
    keys, values = (tuple(each.double() for each in part) for part in prefix[:2])
    for _ in range(2):
        torch.manual_seed(0)
        states.append(encoder.at(batch, ends(batch), prefix=KeyValues(keys, values)))
        key.register_forward_hook(lambda _m, _i, output: output)
    torch.testing.assert_close(*states, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("unpads", [True, False])
def test_autocast_does_not_round_a_state_that_is_taken(tiny_encoder: Path, unpads: bool) -> None:
    encoder, batch = Encoder(str(tiny_encoder)).eval(), text()
    encoder.unpads = unpads
    with torch.autocast("cpu", torch.bfloat16):
        vectors = encoder.at(batch, ends(batch))
        states = torch.randn(2, 3, 4)
        taken = select(states, torch.tensor([2, 0]))
    assert vectors.dtype == torch.float32
    assert not vectors.equal(vectors.bfloat16().float())
    assert taken[:, 0].equal(states[[0, 1], [2, 0]])
