"""Replaced-token detection: masking rates, corruption rules and the loss, as diffcse.md 1.2 and 1.4 have them."""

import math
from typing import cast

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.objectives.replaced_tokens import corrupt, mask_tokens, replaced_token_loss

CLS, SEP, MASK, PAD = 101, 102, 103, 0
SPECIAL = torch.tensor([PAD, 100, CLS, SEP, MASK])
VOCABULARY = 1000


class Script:
    """A generator whose best piece at every position is written down; remembers what it was asked."""

    def __init__(self, best: list[list[int]]) -> None:
        self.best = torch.tensor(best)

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        self.seen = input_ids.clone(), attention_mask.clone()
        return self.best.clone()

    def corrupt(self, batch: TextBatch, masked: torch.Tensor) -> tuple[TextBatch, torch.Tensor]:
        return corrupt(cast("Generator", self), batch, masked)


def batch_of(rows: list[list[int]], mask: list[list[int]]) -> TextBatch:
    return TextBatch(torch.tensor(rows), torch.tensor(mask), torch.arange(len(rows)))


def test_corruption_rules() -> None:
    original = [
        # [CLS]  kept  restored  replaced  unmasked but changed  [SEP]
        [CLS, 11, 12, 13, 14, SEP],
        [CLS, 21, SEP, PAD, PAD, PAD],
    ]
    real = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
    masked = [[CLS, 11, MASK, MASK, 14, SEP], [CLS, MASK, SEP, PAD, PAD, PAD]]
    best = [[999, 11, 12, 500, 501, 502], [998, 21, SEP, 503, 504, 505]]
    generator = Script(best)
    edited, labels = generator.corrupt(batch_of(original, real), torch.tensor(masked))
    assert edited.input_ids.tolist() == [[CLS, 11, 12, 500, 501, 502], [CLS, 21, SEP, 0, 0, 0]]
    assert labels.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert edited.attention_mask.tolist() == real
    assert generator.seen[0].tolist() == masked, "the generator reads the masked text"
    assert generator.seen[1].tolist() == real, "the generator sees no padding"


def test_padding_of_another_id_becomes_zero_and_is_not_replaced() -> None:
    """RoBERTa pads with 1."""
    edited, labels = Script([[5, 6, 7, 8]]).corrupt(
        batch_of([[9, 6, 1, 1]], [[1, 1, 0, 0]]), torch.tensor([[9, 6, 1, 1]])
    )
    assert edited.input_ids.tolist() == [[9, 6, 0, 0]]
    assert labels.tolist() == [[0, 0, 0, 0]]


def test_corruption_leaves_its_input_alone() -> None:
    batch, masked = batch_of([[CLS, 11, SEP]], [[1, 1, 1]]), torch.tensor([[CLS, MASK, SEP]])
    Script([[7, 8, 9]]).corrupt(batch, masked)
    assert batch.input_ids.tolist() == [[CLS, 11, SEP]]
    assert masked.tolist() == [[CLS, MASK, SEP]]


@pytest.mark.parametrize("ratio", [0.15, 0.3])
def test_masking_rates(ratio: float) -> None:
    torch.manual_seed(0)
    count, piece = 400_000, 777
    masked = mask_tokens(torch.full((400, 1000), piece), SPECIAL, MASK, VOCABULARY, ratio)
    to_mask = (masked == MASK).sum().item()
    to_random = ((masked != MASK) & (masked != piece)).sum().item()

    def near(found: int, probability: float) -> bool:
        return abs(found - count * probability) < 5 * math.sqrt(count * probability * (1 - probability))

    # a random piece is [MASK] in 1 of 1000 cases, and the old one in 1 of 1000
    assert near(to_mask, ratio * (0.8 + 0.1 / VOCABULARY))
    assert near(to_random, ratio * 0.1 * (1 - 2 / VOCABULARY))


def test_random_pieces_are_uniform_over_the_vocabulary() -> None:
    torch.manual_seed(1)
    masked = mask_tokens(torch.full((500, 1000), 5), torch.tensor([0, 1]), 9, 10, 1.0)
    counts = torch.bincount(masked.flatten(), minlength=10).double()
    others = counts[[0, 1, 2, 3, 4, 6, 7, 8]]
    assert ((others - 5000).abs() < 5 * math.sqrt(5000)).all(), others


def test_special_tokens_are_never_masked_and_all_others_can_be() -> None:
    torch.manual_seed(2)
    ids = torch.tensor([[CLS, 100, 7, SEP, MASK, PAD, 8]]).expand(2000, -1)
    masked = mask_tokens(ids, SPECIAL, MASK, VOCABULARY, 1.0)
    changed = (masked != ids).double().mean(dim=0)
    assert changed[[0, 1, 3, 4, 5]].tolist() == [0] * 5
    assert all(abs(rate - 0.9) < 0.04 for rate in changed[[2, 6]].tolist())


def test_ratio_zero_masks_nothing() -> None:
    ids = torch.randint(200, 900, (50, 50))
    assert torch.equal(mask_tokens(ids, SPECIAL, MASK, VOCABULARY, 0.0), ids)


def test_every_row_is_masked_on_its_own() -> None:
    torch.manual_seed(3)
    masked = mask_tokens(torch.full((2, 64), 7), SPECIAL, MASK, VOCABULARY, 0.5)
    assert not torch.equal(masked[0], masked[1])


def test_loss_is_the_mean_over_all_rows_and_positions_with_padding() -> None:
    generator = np.random.default_rng(4)
    logits = generator.normal(size=(3, 5, 2)) * 2
    labels = generator.integers(0, 2, size=(3, 5))
    labels[2, 2:] = 0  # padding, scored all the same
    total = 0.0
    for row in range(3):
        for position in range(5):
            zero, one = logits[row, position]
            total += math.log(math.exp(zero) + math.exp(one)) - (zero, one)[labels[row, position]]
    found = replaced_token_loss(torch.tensor(logits, dtype=torch.float32), torch.tensor(labels))
    assert found.item() == pytest.approx(total / 15, rel=1e-6)
