"""Synonym replacement: which word, how often, and the second view (simcse.md, section 2.5)."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from harness.data.batching import TextBatch, interleaved, pad
from harness.data.tokens import Template, piece_ids
from harness.errors import UserError
from harness.views.synonyms import read_thesaurus, replace_word, synonym_pieces, synonym_views


@pytest.fixture
def thesaurus(tmp_path: Path) -> Path:
    path = tmp_path / "thesaurus.txt"
    path.write_text("Cat, bird ,horse\n\ngarden,house\nsees,finds\n")
    return path


@pytest.fixture
def tokenizer(tiny_encoder: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_encoder)


def test_a_thesaurus_is_read(thesaurus: Path) -> None:
    assert read_thesaurus(thesaurus) == {
        "cat": ["bird", "horse"],
        "garden": ["house"],
        "sees": ["finds"],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        (b"cat,bird\ndog\n", "line 2: a word and its synonyms"),
        (b"cat,bird\n,dog\n", "line 2: a word and its synonyms"),
        (b"cat, ,\n", "line 1: a word and its synonyms"),
        (b"caf\xe9,bar\n", "not UTF-8"),
    ],
)
def test_a_thesaurus_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "thesaurus.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_thesaurus(path)


def test_one_known_word_is_replaced(thesaurus: Path) -> None:
    found, generator = read_thesaurus(thesaurus), random.Random(0)
    seen = Counter(replace_word("The Cat sees the garden", found, generator) for _ in range(600))
    assert set(seen) == {
        "The bird sees the garden",
        "The horse sees the garden",
        "The Cat finds the garden",
        "The Cat sees the house",
    }
    assert abs(seen["The Cat finds the garden"] - 200) < 60, "each known word equally often"
    assert abs(seen["The bird sees the garden"] - 100) < 50, "each of its synonyms equally often"


def test_without_a_known_word_the_sentence_stays(thesaurus: Path) -> None:
    assert (
        replace_word("a  dog follows", read_thesaurus(thesaurus), random.Random(0))
        == "a dog follows"
    )


def test_every_sentence_is_replaced_once_and_for_all(
    thesaurus: Path, tokenizer: Any, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.txt"
    texts = ["the cat sees the garden"] * 40
    corpus.write_text("".join(f"{text}\n" for text in texts))
    arrays = synonym_pieces(str(corpus), thesaurus, tokenizer)
    assert len(arrays["starts"]) == 41
    (original,) = piece_ids(tokenizer, texts[:1])
    rows = [arrays["ids"][start : start + 5].tolist() for start in arrays["starts"][:-1]]
    assert all(
        sum(one != other for one, other in zip(row, original, strict=True)) == 1 for row in rows
    )
    assert len({tuple(row) for row in rows}) > 1, "drawn for each sentence"
    again = synonym_pieces(str(corpus), thesaurus, tokenizer)
    assert (again["ids"] == arrays["ids"]).all(), "a fixed seed"


def test_views_are_the_sentence_and_its_replacement(
    thesaurus: Path, tokenizer: Any, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.txt"
    texts = ["a dog", "the cat follows the old teacher near the river", "a horse sees the garden"]
    corpus.write_text("".join(f"{text}\n" for text in texts))
    pieces, template = synonym_pieces(str(corpus), thesaurus, tokenizer), Template.plain(tokenizer)
    items = torch.tensor([2, 0, 1])
    rows = [
        torch.tensor(row[:6]).numpy()
        for row in piece_ids(tokenizer, [texts[item] for item in items])
    ]
    ids, mask = pad(rows, template, tokenizer.pad_token_id)
    views = synonym_views(TextBatch(ids, mask, items), pieces, template, 6, tokenizer.pad_token_id)
    assert (views.views, views.items.tolist()) == (2, [2, 0, 1])
    assert torch.equal(views.input_ids[0::2], ids)
    for index, item in enumerate(items.tolist()):
        row = views.input_ids[2 * index + 1][views.attention_mask[2 * index + 1].bool()].tolist()
        replaced = pieces["ids"][pieces["starts"][item] : pieces["starts"][item + 1]].tolist()
        assert row == [tokenizer.cls_token_id, *replaced[:6], tokenizer.sep_token_id]


def test_two_views_are_padded_to_the_longer_one() -> None:
    items = torch.arange(2)
    short = TextBatch(
        torch.tensor([[5, 6], [7, 1]]), torch.tensor([[1, 1], [1, 0]]), items, epoch=3
    )
    long = TextBatch(
        torch.tensor([[5, 6, 6], [7, 1, 1]]), torch.tensor([[1, 1, 1], [1, 0, 0]]), items
    )
    for both, rows in (
        (interleaved(short, long, 1), [[5, 6, 1], [5, 6, 6], [7, 1, 1], [7, 1, 1]]),
        (interleaved(long, short, 1), [[5, 6, 6], [5, 6, 1], [7, 1, 1], [7, 1, 1]]),
    ):
        assert both.input_ids.tolist() == rows
        assert both.views == 2
    assert interleaved(short, long, 1).attention_mask.tolist() == [
        [1, 1, 0],
        [1, 1, 1],
        [1, 0, 0],
        [1, 0, 0],
    ]
    assert interleaved(short, long, 1).epoch == 3
