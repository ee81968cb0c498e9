"""ConSERT's augmentations of the embedding output (consert.md, section 2), sentence by sentence."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.encoders.backbone import Encoder
from harness.encoders.pooling import mean
from methods.consert.augmentations import (
    adversarial,
    augmented,
    element_dropout,
    feature_cutoff,
    shuffled_positions,
    token_cutoff,
)

LENGTHS = [10, 7, 3, 1]
WIDTH = 32


def mask_of(lengths: list[int]) -> Tensor:
    return torch.tensor(
        [[int(position < length) for position in range(max(lengths))] for length in lengths]
    )


def output_of(lengths: list[int]) -> Tensor:
    """An embedding output without a zero."""
    return (
        torch.rand(len(lengths), max(lengths), WIDTH, generator=torch.Generator().manual_seed(0))
        + 0.5
    )


def text(lengths: list[int]) -> TextBatch:
    mask = mask_of(lengths)
    ids = torch.randint(5, 30, mask.shape, generator=torch.Generator().manual_seed(1))
    return TextBatch(ids * mask, mask, torch.arange(len(lengths)))


def test_shuffling_permutes_the_real_positions_and_leaves_padding() -> None:
    torch.manual_seed(0)
    seen = set()
    for _ in range(300):
        positions = shuffled_positions(mask_of(LENGTHS))
        for row, length in enumerate(LENGTHS):
            assert sorted(positions[row, :length].tolist()) == list(range(length))
            assert positions[row, length:].tolist() == list(range(length, 10))
        seen.add(tuple(positions[2, :3].tolist()))
    assert len(seen) == 6, "every order, those that move [CLS] and [SEP] too"


def test_sentences_are_shuffled_each_on_their_own() -> None:
    torch.manual_seed(0)
    rows = shuffled_positions(mask_of([9] * 20))
    assert len({tuple(row) for row in rows.tolist()}) == 20


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.29, 0.5, 1.0])
def test_token_cutoff_zeroes_whole_real_tokens(rate: float) -> None:
    torch.manual_seed(0)
    output, mask = output_of(LENGTHS), mask_of(LENGTHS)
    cut = token_cutoff(mask, rate)(output)
    for row, length in enumerate(LENGTHS):
        zero = (cut[row] == 0).all(dim=1)
        assert zero.sum() == math.floor(rate * length)
        assert not zero[length:].any(), "padding does not count"
        assert torch.equal(cut[row][~zero], output[row][~zero])


def test_every_token_is_cut_equally_often() -> None:
    torch.manual_seed(0)
    cut = token_cutoff(torch.ones(4000, 10, dtype=torch.long), 0.3)(torch.ones(4000, 10, 1))
    assert np.allclose(
        (cut == 0).double().mean(dim=(0, 2)), 0.3, atol=0.04
    )  # 5 standard deviations


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (0.2, 6), (0.1, 3), (1.0, 32)])
def test_feature_cutoff_takes_the_same_columns_from_every_token(rate: float, expected: int) -> None:
    torch.manual_seed(0)
    output = output_of(LENGTHS)
    cut = feature_cutoff(rate)(output)
    columns = (cut == 0).all(dim=1)
    assert (columns.sum(dim=1) == expected).all()
    assert torch.equal(cut, output * ~columns[:, None])
    if 0 < expected < WIDTH:
        assert len({tuple(row) for row in columns.tolist()}) == len(LENGTHS), (
            "drawn for each sentence"
        )


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.29, 1.0])
def test_dropout_removes_an_exact_number_and_does_not_rescale(rate: float) -> None:
    torch.manual_seed(0)
    output, mask = output_of(LENGTHS), mask_of(LENGTHS)
    cut = element_dropout(mask, rate)(output)
    for row, length in enumerate(LENGTHS):
        assert (cut[row, :length] == 0).sum() == math.floor(rate * length * WIDTH)
        assert torch.equal(cut[row, length:], output[row, length:])
    assert torch.equal(cut[cut != 0], output[cut != 0])


def test_nothing_is_changed_by_none() -> None:
    assert augmented("none", mask_of(LENGTHS), 0.2) == {}


def test_cut_tokens_stay_in_the_attention_and_in_the_mean(tiny_encoder: Path) -> None:
    """The mean is over all positions of the output, also where every token is cut to zeros."""
    encoder = Encoder(str(tiny_encoder)).eval()
    batch = text([6])
    vectors = mean(
        encoder(batch, **augmented("token-cutoff", batch.attention_mask, 1.0)), batch.attention_mask
    )
    states = encoder.model.encoder(torch.zeros(1, 6, WIDTH)).last_hidden_state
    assert torch.allclose(vectors, states.mean(dim=1), atol=1e-6)


def test_shuffling_moves_positions_and_not_words(tiny_roberta: Path, watch: Any) -> None:
    encoder = Encoder(str(tiny_roberta)).eval()
    encoder.unpads = False  # so that positions come row by row
    words, places = (
        watch(getattr(encoder.model.embeddings, f"{name}_embeddings"))
        for name in ("word", "position")
    )
    batch = text([8, 5])
    torch.manual_seed(0)
    reach = augmented("shuffle", batch.attention_mask, 0.0)
    encoder(batch, **reach)
    assert torch.equal(words.given[0][0][0], batch.input_ids)
    assert torch.equal(places.given[0][0][0], reach["positions"] + 2), "RoBERTa numbers from 2"


class Bowl(nn.Module):
    """A loss whose gradient is known: sum of (output - target)^2 / 2."""

    def forward(self, output: Tensor) -> Tensor:
        return (output - 1.0).square().sum() / 2


@pytest.mark.parametrize("norm", [1.0, 0.25])
def test_noise_points_up_the_loss_with_the_same_length_for_every_token(norm: float) -> None:
    output = (output_of([4, 4]) * 3).requires_grad_()
    noise = (adversarial(Bowl()(output), output, norm)(output) - output).detach().double().numpy()
    gradient = output.detach().double().numpy() - 1.0
    for row, position in np.ndindex(2, 4):
        direction = gradient[row, position] / np.linalg.norm(gradient[row, position])
        assert np.abs(noise[row, position] - norm * direction).max() < 1e-5


def test_noise_of_gradients_that_fp16_would_lose() -> None:
    output = torch.ones(1, 2, WIDTH, dtype=torch.float16, requires_grad=True)
    loss = 1e-8 * output.float().sum()
    noise = (adversarial(loss, output, 1.0)(output) - output).detach().float()
    assert noise.norm(dim=-1).numpy() == pytest.approx(1.0, rel=0.02)


def test_noise_is_zero_where_there_is_no_gradient() -> None:
    output = torch.zeros(1, 2, WIDTH, requires_grad=True)
    loss = output[:, 0].sum()
    noise = adversarial(loss, output, 1.0)(output) - output
    assert noise[0, 1].abs().max() == 0
    assert noise[0, 0].norm().item() == pytest.approx(1.0, rel=1e-5)


def test_the_loss_can_still_be_differentiated_and_noise_has_no_gradient() -> None:
    weight = torch.ones(WIDTH, requires_grad=True)
    output = output_of([4]) * weight
    loss = Bowl()(output)
    noised = adversarial(loss, output, 1.0)(torch.zeros_like(output))
    loss.backward(retain_graph=True)
    assert weight.grad is not None
    # Through the output alone, with which every feature of a token grows by 1.
    (gradient,) = torch.autograd.grad(noised.sum(), weight)
    assert torch.equal(gradient, output_of([4]).sum(dim=(0, 1)))
