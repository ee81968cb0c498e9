"""Word repetition (esimcse.md, section 1)."""

from collections import Counter

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template
from methods.esimcse.repetition import (
    RepetitionRange,
    most_repeated,
    repeated_pieces,
    repetition_views,
)

TEMPLATE = Template((2,), (3,))


@pytest.mark.parametrize(
    ("pieces", "rate", "rule", "expected"),
    [
        (30, 0.32, "code", 9),  # min(10, floor(0.32 * 32)) - 1: up to 32 + 9 tokens
        (30, 0.3, "code", 8),
        (30, 1.0, "code", 9),  # never more than 9
        (8, 0.32, "code", 2),  # floor(0.32 * 10) - 1
        (3, 0.32, "code", 0),  # floor(1.6) - 1
        (1, 0.32, "code", 0),
        (0, 1.0, "code", 0),
        (30, 0.32, "paper", 9),
        (20, 0.32, "paper", 6),
        (4, 0.32, "paper", 2),
        (1, 0.32, "paper", 1),  # positions are distinct
        (0, 0.32, "paper", 0),
    ],
)
def test_bounds(pieces: int, rate: float, rule: RepetitionRange, expected: int) -> None:
    assert most_repeated(pieces, 2, rate, rule) == expected


@pytest.mark.parametrize(("rule", "most"), [("code", 6), ("paper", 6)])
def test_pieces_are_doubled_in_place(rule: RepetitionRange, most: int) -> None:
    """The count is uniform from 0 to the bound, and the positions are random and distinct."""
    row = np.arange(100, 120)
    counts: Counter[int] = Counter()
    where: Counter[int] = Counter()
    for item in range(3000):
        doubled = repeated_pieces(row, item, 2, 0.32, rule)
        times = Counter(doubled.tolist())
        assert set(times) == set(row.tolist())
        assert doubled.tolist() == sorted(doubled.tolist()), (
            "the order stays, a repetition stands beside its piece"
        )
        assert max(times.values()) <= 2
        counts[len(doubled) - 20] += 1
        where.update(piece for piece, count in times.items() if count == 2)
    assert set(counts) == set(range(most + 1))
    assert all(abs(count - 3000 / (most + 1)) < 120 for count in counts.values())
    assert set(where) == set(row.tolist())
    assert max(where.values()) < 1.4 * min(where.values())


def test_it_depends_on_the_item_alone() -> None:
    torch.manual_seed(0)
    row = np.arange(100, 120)
    first = [repeated_pieces(row, item, 2, 0.32, "code").tolist() for item in range(20)]
    torch.manual_seed(1)
    assert [repeated_pieces(row, item, 2, 0.32, "code").tolist() for item in range(20)] == first
    assert len({tuple(pieces) for pieces in first}) > 10


def views(pad_id: int) -> tuple[TextBatch, TextBatch]:
    rows = [np.arange(10, 10 + length) for length in (30, 4, 12)]
    ids, mask = pad(rows, TEMPLATE, pad_id)
    texts = TextBatch(ids, mask, torch.tensor([7, 3, 11]), epoch=2)
    return texts, repetition_views(texts, TEMPLATE, 0.32, "paper", pad_id)


@pytest.mark.parametrize("pad_id", [0, 1])
def test_view_2_alone_is_repeated_and_is_not_cut_again(pad_id: int) -> None:
    texts, both = views(pad_id)
    assert (both.views, both.epoch, both.items.tolist()) == (2, 2, [7, 3, 11])
    width = texts.input_ids.shape[1]
    assert both.input_ids.shape[1] > width == 32
    assert torch.equal(both.input_ids[0::2, :width], texts.input_ids)
    assert torch.equal(both.attention_mask[0::2, :width], texts.attention_mask)
    assert (both.input_ids[0::2, width:] == pad_id).all()
    for index, (length, item) in enumerate(zip((30, 4, 12), (7, 3, 11), strict=True)):
        row = both.input_ids[2 * index + 1][both.attention_mask[2 * index + 1].bool()]
        pieces = repeated_pieces(np.arange(10, 10 + length), item, 2, 0.32, "paper")
        assert row.tolist() == [2, *pieces.tolist(), 3], "special tokens are never repeated"
        assert len(row) <= 32 + 9


def test_the_same_item_beside_others_gets_the_same_repetitions() -> None:
    texts, both = views(0)
    alone = TextBatch(
        texts.input_ids[2:, :14], texts.attention_mask[2:, :14], texts.items[2:], epoch=5
    )
    row = repetition_views(alone, TEMPLATE, 0.32, "paper", 0)
    real = row.attention_mask[1].bool()
    assert torch.equal(row.input_ids[1][real], both.input_ids[5][both.attention_mask[5].bool()])
