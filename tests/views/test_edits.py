"""Insertion, deletion and their mixture (diffcse.md, section 2)."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from harness.choices import EDITS
from harness.data.batching import TextBatch
from harness.plugin.kit import Kit
from harness.plugin.sentence_editor import editor as editor_of
from harness.views.edits import delete, insert

KitFor = Callable[..., Kit]
Watch = Callable[[nn.Module], Any]
CLS, SEP, MASK = 101, 102, 103
LENGTHS = [0, 1, 2, 5, 10, 17, 30]
"""Pieces of each sentence, [CLS] and [SEP] not counted"""


def batch_of(lengths: list[int], *, pad_id: int = 0, cls: int = CLS, sep: int = SEP) -> TextBatch:
    """Sentences of the pieces 1000, 1001, ..., so that every piece says where it stood."""
    ids = torch.full((len(lengths), max(lengths) + 2), pad_id)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, : length + 2] = torch.tensor([cls, *range(1000, 1000 + length), sep])
        mask[row, : length + 2] = 1
    return TextBatch(ids, mask, torch.arange(len(lengths)))


def real(batch: TextBatch, row: int) -> list[int]:
    """A row without its padding, which must be id 0."""
    length = int(batch.attention_mask[row].sum())
    assert batch.attention_mask[row].tolist() == [1] * length + [0] * (
        batch.input_ids.shape[1] - length
    )
    assert not batch.input_ids[row, length:].any()
    found: list[int] = batch.input_ids[row, :length].tolist()
    return found


def share(length: int, ratio: float) -> int:
    return max(1, round(ratio * length))


@pytest.mark.parametrize("pad_id", [0, 1])
@pytest.mark.parametrize("ratio", [0.15, 0.5])
def test_insertion(ratio: float, pad_id: int) -> None:
    torch.manual_seed(0)
    opened, inserted = insert(batch_of(LENGTHS, pad_id=pad_id), MASK, ratio, 512)
    for row, length in enumerate(LENGTHS):
        pieces = real(opened, row)
        assert [piece for piece in pieces if piece != MASK] == [
            CLS,
            *range(1000, 1000 + length),
            SEP,
        ]
        assert pieces.count(MASK) == share(length, ratio)
        assert (pieces[0], pieces[-1]) == (CLS, SEP), (
            "nothing is inserted before [CLS] or after [SEP]"
        )
        assert inserted[row].tolist()[: len(pieces)] == [piece == MASK for piece in pieces]
        assert not inserted[row, len(pieces) :].any()
    assert opened.input_ids.shape[1] == 32 + share(30, ratio), "no wider than the longest row"


def test_insertion_is_cut_before_the_last_token() -> None:
    torch.manual_seed(0)
    for _ in range(20):
        opened, inserted = insert(batch_of([30, 27, 3]), MASK, 0.15, 32)
        assert opened.input_ids.shape == inserted.shape == (3, 32)
        assert len(real(opened, 0)) == 32
        assert len(real(opened, 1)) == 32
        for row in range(3):
            pieces = real(opened, row)
            assert (pieces[0], pieces[-1]) == (CLS, SEP)
            kept = [piece for piece in pieces[1:-1] if piece != MASK]
            assert kept == list(range(1000, 1000 + len(kept))), "cut on the right"
            assert torch.equal(inserted[row], opened.input_ids[row] == MASK)


@pytest.mark.slow
def test_insertion_is_uniform_over_the_places() -> None:
    torch.manual_seed(0)
    _, inserted = insert(batch_of([4] * 20_000), MASK, 0.25, 512)
    rates = inserted.double().mean(dim=0)
    assert rates[[0, 6]].tolist() == [0, 0]
    assert ((rates[1:6] - 0.2).abs() < 5 * (0.16 / 20_000) ** 0.5).all(), rates


@pytest.mark.parametrize("ratio", [0.15, 0.5])
def test_deletion(ratio: float) -> None:
    torch.manual_seed(0)
    edited = delete(batch_of(LENGTHS, pad_id=1), ratio)
    for row, length in enumerate(LENGTHS):
        pieces, original = real(edited.batch, row), [CLS, *range(1000, 1000 + length), SEP]
        assert len(pieces) == length + 2 - min(length, share(length, ratio))
        assert (pieces[0], pieces[-1]) == (CLS, SEP)
        where = [original.index(piece) for piece in pieces]
        assert where == sorted(where)
        gaps = [False, *(after - before > 1 for before, after in itertools.pairwise(where))]
        assert edited.labels[row].tolist() == [
            *map(int, gaps),
            *[0] * (edited.labels.shape[1] - len(gaps)),
        ]
    assert edited.labels.any()
    assert edited.batch.input_ids.shape[1] == 32 - share(30, ratio)


@pytest.mark.slow
def test_deletion_is_uniform_over_the_pieces() -> None:
    torch.manual_seed(0)
    edited = delete(batch_of([5] * 20_000), 0.2)
    gone = torch.tensor(
        [float((edited.batch.input_ids != piece).all(dim=1).sum()) for piece in range(1000, 1005)]
    )
    assert ((gone / 20_000 - 0.2).abs() < 5 * (0.16 / 20_000) ** 0.5).all(), gone


def editor_for(kit: Kit, edit: str) -> Any:
    torch.manual_seed(0)
    return editor_of(kit.config, kit, EDITS if edit == "all" else (edit,)).train()


def words(lengths: list[int]) -> TextBatch:
    batch = batch_of(lengths, cls=2, sep=3)
    return batch.replaced(
        torch.where(batch.input_ids >= 1000, batch.input_ids - 993, batch.input_ids),
        batch.attention_mask,
    )


def test_the_generator_writes_at_the_inserted_places_only(kit_for: KitFor, watch: Watch) -> None:
    kit = kit_for("diffcse", edit="insert", masking_ratio=0.4, max_length=20)
    editor = editor_for(kit, "insert")
    generator = watch(editor.generator)
    batch = words([3, 12, 18])
    edited = editor(batch)
    read, best = generator.given[0][0][0], generator.results[0]
    places = read == kit.tokenizer.mask_token_id
    assert places.sum() > 3
    assert torch.equal(edited.labels, places.long()), (
        "1 = inserted, whatever the generator wrote there"
    )
    assert torch.equal(edited.batch.input_ids, torch.where(places, best, read))
    assert edited.batch.input_ids.shape[1] == 20


def test_deletion_builds_no_generator(kit_for: KitFor) -> None:
    kit = kit_for("diffcse", edit="delete", generator="there-is-no-such-model")
    assert not list(editor_for(kit, "delete").parameters())


def test_one_of_the_three_edits_is_drawn_per_row(kit_for: KitFor) -> None:
    kit = kit_for("diffcse", edit="all", masking_ratio=0.5, max_length=30)
    editor = editor_for(kit, "all")
    batch = words([10] * 600)
    edited = editor(batch)
    assert edited.kinds.shape == (600,)
    for number, length in ((0, 12), (1, 17), (2, 7)):
        rows = edited.kinds == number
        assert abs(int(rows.sum()) - 200) < 5 * (600 * 2 / 9) ** 0.5
        assert (edited.batch.attention_mask[rows].sum(dim=1) == length).all(), EDITS[number]
    replaced = edited.kinds == 0
    changed = edited.batch.input_ids[replaced][:, :12] != batch.input_ids[replaced]
    assert torch.equal(changed.long(), edited.labels[replaced][:, :12])
    assert (edited.labels[edited.kinds == 1].sum(dim=1) == 5).all()
    assert edited.labels.shape == edited.batch.input_ids.shape == (600, 17)


def test_a_mixture_may_lack_an_edit(kit_for: KitFor) -> None:
    kit = kit_for("diffcse", edit="all")
    editor = editor_for(kit, "all")
    kinds = [editor(words([6])).kinds.item() for _ in range(30)]
    assert set(kinds) == {0, 1, 2}


@pytest.mark.parametrize("edit", ["replace", "insert", "delete", "all"])
def test_every_view_is_edited_on_its_own_and_the_seed_decides(kit_for: KitFor, edit: str) -> None:
    kit = kit_for("diffcse", edit=edit, masking_ratio=0.5)
    editor = editor_for(kit, edit)
    batch = words([9, 12]).repeated(2)
    torch.manual_seed(1)
    first, second = editor(batch), editor(batch)
    torch.manual_seed(1)
    again = editor(batch)
    assert torch.equal(first.batch.input_ids, again.batch.input_ids)
    assert torch.equal(first.labels, again.labels)
    assert first.labels.shape != second.labels.shape or not torch.equal(first.labels, second.labels)
    assert not torch.equal(first.batch.input_ids[0], first.batch.input_ids[1])


def test_roberta(kit_for: KitFor, tiny_roberta: Path) -> None:
    kit = kit_for("diffcse", encoder=str(tiny_roberta), edit="all", masking_ratio=0.3)
    batch = batch_of([4, 9, 9, 2, 6, 8], pad_id=1, cls=0, sep=2)
    batch = batch.replaced(
        torch.where(batch.input_ids >= 1000, batch.input_ids - 993, batch.input_ids),
        batch.attention_mask,
    )
    edited = editor_for(kit, "all")(batch)
    assert (edited.batch.input_ids[:, 0] == 0).all()
    assert not edited.labels[edited.batch.attention_mask == 0].any()
