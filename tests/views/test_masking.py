"""BERT's masking and the masked-LM loss.

diffcse.md, section 1.2; dcpcse.md, section 2; simcse.md, section 2.4.
"""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from harness.losses.masked_language import masked_language_loss
from harness.views.masking import Masker

PAD, UNK, CLS, SEP, MASK = 0, 100, 101, 102, 103
SPECIAL = [PAD, UNK, CLS, SEP, MASK]
VOCABULARY = 1000


class FewPieces(SimpleNamespace):
    """The parts of a tokenizer that the masker reads."""

    def __len__(self) -> int:
        return int(self.size)


def masker(
    ratio: float,
    special: list[int] = SPECIAL,
    mask: int | None = MASK,
    vocabulary: int = VOCABULARY,
    **options: Any,
) -> Masker:
    tokenizer = FewPieces(all_special_ids=special, mask_token_id=mask, size=vocabulary)
    return Masker(tokenizer, ratio, **options)


@pytest.mark.parametrize("ratio", [0.15, 0.3])
def test_masking_rates(ratio: float) -> None:
    torch.manual_seed(0)
    count, piece = 400_000, 777
    masked = masker(ratio)(torch.full((400, 1000), piece))
    to_mask = (masked.input_ids == MASK).sum().item()
    to_random = ((masked.input_ids != MASK) & (masked.input_ids != piece)).sum().item()
    kept = (masked.chosen & (masked.input_ids == piece)).sum().item()

    def near(found: int, probability: float) -> bool:
        return abs(found - count * probability) < 5 * math.sqrt(
            count * probability * (1 - probability)
        )

    # a random piece is [MASK] in 1 of 1000 cases, and the old one in 1 of 1000
    assert near(to_mask, ratio * (0.8 + 0.1 / VOCABULARY))
    assert near(to_random, ratio * 0.1 * (1 - 2 / VOCABULARY))
    assert near(kept, ratio * (0.1 + 0.1 / VOCABULARY))
    assert near(masked.chosen.sum().item(), ratio)


def test_random_pieces_are_uniform_over_the_vocabulary() -> None:
    torch.manual_seed(1)
    masked = masker(1.0, special=[0, 1], mask=9, vocabulary=10)(
        torch.full((500, 1000), 5)
    ).input_ids
    counts = torch.bincount(masked.flatten(), minlength=10).double()
    others = counts[[0, 1, 2, 3, 4, 6, 7, 8]]
    assert ((others - 5000).abs() < 5 * math.sqrt(5000)).all(), others


def test_special_tokens_are_never_masked_and_all_others_can_be() -> None:
    """[UNK] is a special token."""
    torch.manual_seed(2)
    ids = torch.tensor([[CLS, UNK, 7, SEP, MASK, PAD, 8]]).expand(2000, -1)
    masked = masker(1.0)(ids)
    assert masked.chosen[0].tolist() == [False, False, True, False, False, False, True]
    changed = (masked.input_ids != ids).double().mean(dim=0)
    assert changed[[0, 1, 3, 4, 5]].tolist() == [0] * 5
    assert all(abs(rate - 0.9) < 0.04 for rate in changed[[2, 6]].tolist())


def test_all_chosen_pieces_are_masked_with_a_piece_that_is_named() -> None:
    torch.manual_seed(2)
    masked = masker(0.4, mask=None, mask_id=31, everywhere=True)(torch.full((50, 50), 7))
    assert torch.equal(masked.input_ids, torch.where(masked.chosen, 31, 7))
    assert 0.35 < masked.chosen.double().mean() < 0.45


def test_only_chosen_positions_change_and_the_input_stays() -> None:
    torch.manual_seed(3)
    ids = torch.randint(200, 900, (50, 50))
    before = ids.clone()
    masked = masker(0.5)(ids)
    assert torch.equal(ids, before), (
        "masking in place would show the masks to the contrastive pass, too"
    )
    assert torch.equal(masked.input_ids[~masked.chosen], ids[~masked.chosen])


def test_loss_is_zero_where_nothing_was_chosen() -> None:
    """All that a batch with a chosen position reaches gets a gradient here, too."""
    states, head = torch.randn(2, 3, 8, requires_grad=True), nn.Linear(8, 11)
    found = masked_language_loss(head, states, torch.zeros(2, 3).long(), torch.zeros(2, 3).bool())
    assert found.item() == 0
    found.backward()
    assert all(each.grad.abs().max() == 0 for each in (states, head.weight, head.bias))


def test_loss_under_autocast_is_computed_in_float32() -> None:
    torch.manual_seed(5)
    head, states = nn.Linear(8, 2000), torch.randn(4, 6, 8)
    originals, chosen = torch.randint(2000, (4, 6)), torch.ones(4, 6).bool()
    with torch.autocast("cpu", torch.bfloat16):
        rough = masked_language_loss(head, states, originals, chosen)
    assert rough.dtype == torch.float32
    assert rough.item() == pytest.approx(
        masked_language_loss(head, states, originals, chosen).item(), abs=0.02
    )
