"""Batches: every item once an epoch, little padding, templates, and cut sentences."""

import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from harness.data.batching import (
    Batching,
    Stream,
    StreamOptions,
    TextBatch,
    length_grouped,
    pad,
    shuffled_batches,
)
from harness.data.items import label_subset
from harness.data.tokens import Template, Tokens
from tests.kits import KitFor

PAD, PLAIN = 0, Template((101,), (102,))


def corpus(*columns: Sequence[Sequence[int]], labels: Sequence[int] | None = None) -> Tokens:
    """A corpus of these word pieces."""
    ids = [np.array([piece for row in column for piece in row], np.int32) for column in columns]
    starts = [np.cumsum([0, *(len(row) for row in column)]) for column in columns]
    return Tokens(ids, starts, None if labels is None else np.array(labels), PAD)


def random_corpus(items: int, longest: int = 30) -> Tokens:
    """A corpus of texts with 1 to `longest` random word pieces."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, longest + 1, (1, items))[0]
    return corpus([generator.integers(1000, 2000, length).tolist() for length in lengths])


def epoch(
    tokens: Tokens, size: int, seed: int = 0, number: int = 0, max_length: int = 64, **options: Any
) -> list[TextBatch]:
    """The batches of epoch `number`."""
    limit = max_length - len(PLAIN)
    stream = Stream(
        tokens, PLAIN, StreamOptions(limit=limit, batch_size=size, seed=seed, **options)
    )
    return list(islice(stream, len(stream) * number, len(stream) * (number + 1)))


def same(first: list[TextBatch], second: list[TextBatch]) -> bool:
    """Whether the batches hold the same items and word pieces in the same order."""
    return all(
        torch.equal(one.items, two.items) and torch.equal(one.input_ids, two.input_ids)
        for one, two in zip(first, second, strict=True)
    )


@pytest.mark.parametrize(("items", "size"), [(100, 10), (103, 10), (5, 10), (1, 2), (2501, 8)])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("batching", get_args(Batching))
def test_an_epoch_has_every_item_once_and_at_most_one_short_batch(
    items: int, size: int, number: int, batching: Batching
) -> None:
    batches = epoch(random_corpus(items), size, number=number, batching=batching)
    assert sorted(torch.cat([batch.items for batch in batches]).tolist()) == list(range(items))
    sizes = sorted(len(batch.items) for batch in batches)
    assert sizes == sorted([size] * (items // size) + ([items % size] if items % size else []))


def test_seed_and_epoch_decide_the_batches() -> None:
    tokens = random_corpus(200)
    for number in (0, 1):
        assert same(*(epoch(tokens, 16, seed=1, number=number) for _ in range(2)))
        assert not same(epoch(tokens, 16, seed=1, number=number), epoch(tokens, 16, seed=2))
    # With seed + epoch as the seed of an epoch, the last two would have been the same.
    assert not same(epoch(tokens, 16, seed=1), epoch(tokens, 16, seed=1, number=1))


def test_items_meet_at_random_by_default() -> None:
    """The lengths in a batch are spread as those of the corpus are, and only the last is short."""
    tokens = random_corpus(6410)
    batches = epoch(tokens, 64)
    lengths = tokens.item_lengths(62)
    spreads = [lengths[batch.items].std() for batch in batches[:-1]]
    assert np.mean(spreads) == pytest.approx(lengths.std(), rel=0.02)
    assert [len(batch.items) for batch in batches] == [64] * 100 + [10]


@pytest.mark.parametrize("group", [0, 1])
def test_grouped_batches_know_the_padding_of_the_shuffled_ones(group: int) -> None:
    """Batch k has the length that shuffled batch k of the same seed has."""
    tokens = random_corpus(1003, longest=70)
    shuffled = epoch(tokens, 16, group=group)
    grouped = epoch(tokens, 16, batching="grouped", group=group)
    widths = [batch.input_ids.shape[1] for batch in shuffled]
    assert [batch.shuffled_length for batch in shuffled] == widths
    assert [batch.shuffled_length for batch in grouped] == widths
    assert [batch.input_ids.shape[1] for batch in grouped] != widths
    assert grouped[0].repeated(2).shuffled_length == widths[0]


@pytest.mark.parametrize("group", [1, 2])
def test_grouped_batches_leave_out_the_items_that_shuffled_ones_leave_out(group: int) -> None:
    """The longest ones would be left out in every epoch otherwise."""
    tokens = random_corpus(53)
    for number in range(5):
        shuffled, grouped = (
            {*torch.cat([batch.items for batch in batches]).tolist()}
            for batches in (
                epoch(tokens, 8, number=number, group=group, batching=batching)
                for batching in get_args(Batching)
            )
        )
        assert len(shuffled) == 48
        assert shuffled == grouped


def test_grouped_batches_have_little_padding_a_random_order_and_other_items_every_epoch() -> None:
    tokens = random_corpus(6400)
    lengths = tokens.item_lengths(64)
    first, second = (epoch(tokens, 64, number=number, batching="grouped") for number in (0, 1))
    shuffled = np.random.default_rng(0).permutation(6400).reshape(-1, 64)
    wasted = sum(int((batch.attention_mask == 0).sum()) for batch in first)
    assert wasted < 0.05 * sum((lengths[rows].max() - lengths[rows]).sum() for rows in shuffled)
    widths = [batch.input_ids.shape[1] for batch in first]
    assert abs(np.corrcoef(np.arange(100), widths)[0, 1]) < 0.3
    assert np.abs(np.diff(widths)).mean() > 5
    members = [{frozenset(batch.items.tolist()) for batch in each} for each in (first, second)]
    assert not members[0] & members[1], "batches are no fixed groups that come in another order"


def test_grouping_works_in_windows() -> None:
    """Only `window` batches are sorted together, so the lengths inside a batch differ somewhat."""
    lengths = np.arange(1000)
    generator = np.random.default_rng(0)
    batches = length_grouped(shuffled_batches(1000, 10, generator), lengths, generator, window=5)
    spans = [lengths[batch].max() - lengths[batch].min() for batch in batches]
    # At least a tenth of the range; if all were sorted together, it would be 9.
    assert np.mean(spans) > 100


def test_the_template_stands_around_every_row() -> None:
    template = Template((1, 2, 3), (8, 9))
    ids, mask = pad([np.array([50, 51]), np.array([], int), np.array([60])], template, pad_id=7)
    assert ids.tolist() == [[1, 2, 3, 50, 51, 8, 9], [1, 2, 3, 8, 9, 7, 7], [1, 2, 3, 60, 8, 9, 7]]
    assert mask.tolist() == [[1] * 7, [1] * 5 + [0] * 2, [1] * 6 + [0]]
    assert ids.dtype == mask.dtype == torch.int64


@pytest.mark.parametrize("max_length", [4, 5, 32])
def test_sentences_are_cut_on_the_right_and_the_template_counts(max_length: int) -> None:
    row = list(range(1000, 1040))
    (batch,) = epoch(corpus([row, row[:1]]), 2, max_length=max_length)
    expected = [101, *row[: max_length - 2], 102]
    assert expected in batch.input_ids.tolist()
    assert batch.input_ids.shape == (2, max_length)


def test_the_rows_of_an_item_stand_together() -> None:
    tokens = corpus(
        [[10], [20], [30]], [[11, 11], [21], [31]], [[12], [22, 22, 22], [32]], labels=[5, 6, 7]
    )
    (batch,) = epoch(tokens, 3)
    rows = [(item, view) for item in batch.items.tolist() for view in range(3)]
    assert batch.views == 3
    assert batch.input_ids[:, 1].tolist() == [10 * (item + 1) + view for item, view in rows]
    lengths = [2 + len(tokens.row(view, item)) for item, view in rows]
    assert batch.attention_mask.sum(dim=1).tolist() == lengths
    assert batch.labels is not None
    assert batch.labels.tolist() == [5 + item for item in batch.items.tolist()]


def test_repeated_rows_stand_together() -> None:
    ids, mask = torch.tensor([[1], [2], [3], [4]]), torch.tensor([[1], [1], [1], [0]])
    twice = TextBatch(ids, mask, torch.tensor([7, 8]), views=2).repeated(2)
    assert twice.input_ids.flatten().tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert twice.attention_mask.flatten().tolist() == [1, 1, 1, 1, 1, 1, 0, 0]
    assert (twice.views, twice.items.tolist()) == (4, [7, 8])


# Label subsets: the same items for all methods, and about the wanted share of them.


@pytest.mark.parametrize("subset", [0, 3])
def test_every_item_is_drawn_on_its_own(subset: int) -> None:
    generator = random.Random(subset)
    expected = [item for item in range(500) if generator.random() < 0.1]
    assert label_subset(500, 0.1, subset) == expected


def test_a_small_share_of_few_items_is_one_item() -> None:
    found = [label_subset(3, 0.01, subset) for subset in range(20)]
    assert all(items and set(items) <= {0, 1, 2} for items in found)


def test_labels_have_the_same_subset_for_all_methods(
    kit_for: KitFor, sentences: Path, triplets: Path
) -> None:
    share, corpus = {"label_fraction": 0.5, "subset": 2}, str(triplets)
    supervised = kit_for("simcse", setting="sup", **share)
    for kit in (supervised, kit_for("clsr", pairs=corpus, **share)):
        assert np.array_equal(kit.label_subset(corpus), label_subset(20, 0.5, 2))
    assert supervised.label_subset(str(sentences)) is None, "it has no labels"
    assert kit_for("simcse", setting="sup").label_subset(corpus) is None, "the share is whole"


def test_corpora_of_the_same_file_have_their_own_subsets(
    kit_for: KitFor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entailments are the items of a corpus of 8, not of the 24 pairs from which they are taken."""
    folder = tmp_path / "datasets/stanfordnlp/snli/data"
    folder.mkdir(parents=True)
    columns = {"premise": ["a dog"] * 12, "hypothesis": ["a cat"] * 12, "label": [0, 1, 2] * 4}
    for split in ("validation", "test"):
        pq.write_table(pa.table(columns), folder / f"{split}-00000-of-00001.parquet")
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    for corpus, items in (("snli-heldout", 24), ("snli-heldout-entailments", 8)):
        found = kit_for("clsr", pairs=corpus, label_fraction=0.9).label_subset(corpus)
        assert np.array_equal(found, label_subset(items, 0.9, 0))
