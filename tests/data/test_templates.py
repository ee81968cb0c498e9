"""Hard prompts in word pieces (diffaug.md, section 1.6; promptbert.md, section 1)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from harness.data.batching import TextBatch, pad
from harness.data.templates import PUBLISHED, hard_prompt, published_templates, rewrapped
from harness.data.tokens import Template, piece_ids
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.resolution import resolve

BERT, ROBERTA = PUBLISHED["bert"], PUBLISHED["roberta"]


@pytest.fixture(scope="module")
def bert(hub: Path) -> Any:
    """The tokenizer of bert-base-uncased."""
    return AutoTokenizer.from_pretrained(hub / "models" / "mini-bert")


@pytest.fixture
def byte_level(byte_roberta: Path) -> Any:
    """A byte-level tokenizer, which is RoBERTa's kind."""
    return AutoTokenizer.from_pretrained(byte_roberta)


def test_pieces_of_the_published_bert_template(bert: Any, byte_level: Any) -> None:
    template = hard_prompt(bert, BERT[0])
    assert template.begin == (101, 2023, 6251, 1997, 1000)
    assert template.end == (1000, 2965, 103, 1012, 102)
    assert (len(template), template.mask_id, template.leading_space) == (10, 103, False)
    assert not hard_prompt(byte_level, BERT[0]).leading_space, "right behind a quote"


@pytest.mark.parametrize("text", BERT)
def test_a_wrapped_bert_sentence_is_the_whole_string_tokenised(bert: Any, text: str) -> None:
    template = hard_prompt(bert, text)
    (sentence,) = piece_ids(bert, ["A man, unexpectedly, is playing."])
    assert [*template.begin, *template.end] == bert(text.replace("{s}", ""))["input_ids"]
    whole = bert(text.replace("{s}", "A man, unexpectedly, is playing."))["input_ids"]
    assert [*template.begin, *sentence, *template.end] == whole


@pytest.mark.parametrize("text", ROBERTA)
def test_a_wrapped_roberta_sentence_is_the_whole_string_tokenised(
    byte_level: Any, text: str
) -> None:
    """The space in front belongs to the sentence, and there is no space before the mask."""
    template = hard_prompt(byte_level, text)
    assert template.leading_space
    assert byte_level.decode(template.begin) == f"<s>{text.split(' {s}')[0]}"
    assert byte_level.decode(template.end) == " ' means<mask>.</s>"
    (sentence,) = piece_ids(byte_level, [" a man"])
    whole = byte_level(text.replace("{s}", "a man").replace("[MASK]", "<mask>"))["input_ids"]
    assert [*template.begin, *sentence, *template.end] == whole


@pytest.mark.parametrize(
    "text",
    ['This sentence of "{s}" means [MASK].', "[MASK] means {s}", "the [MASK] : {s} !",
     '"{s}" means [MASK], so it is [MASK].', "[MASK] means [MASK] : {s} !",
     "[MASK] is [MASK] : {s} , so [MASK] is [MASK] !"],
)  # fmt: skip
def test_mask_positions_are_where_the_last_mask_is(bert: Any, text: str) -> None:
    template = hard_prompt(bert, text)
    ids, mask = pad([np.arange(2000, 2000 + length) for length in (3, 7, 0)], template, 0)
    masks = (ids == 103).nonzero()
    last = [int(masks[masks[:, 0] == row][-1, 1]) for row in range(3)]
    assert template.mask_positions(mask).tolist() == last
    assert len(masks) == 3 * text.count("[MASK]")


def test_the_family_of_the_encoder_chooses_the_published_templates(
    tiny_encoder: Path, tiny_roberta: Path
) -> None:
    assert published_templates(str(tiny_encoder)) == BERT == (
        'This sentence of "{s}" means [MASK].', 'This sentence : "{s}" means [MASK].'
    )  # fmt: skip
    assert published_templates(str(tiny_roberta)) == ROBERTA == (
        "This sentence : ' {s} ' means [MASK].", "The sentence : ' {s} ' means [MASK]."
    )  # fmt: skip


@pytest.mark.parametrize("text", ["means [MASK]", "{s} means", "{s} {s} [MASK]", ""])
def test_a_template_without_its_two_places_is_refused(bert: Any, text: str) -> None:
    message = r"one \{s\} and at least one \[MASK\]"
    with pytest.raises(ValueError, match=message):
        hard_prompt(bert, text)
    for method, field in (
        ("promptbert", "template"),
        ("promptbert", "second_template"),
        ("dcpcse", "template"),
    ):
        with pytest.raises(UserError, match=f"{field} = .*{message}"):
            resolve(registry.load(method), {field: text})


SHORT, LONG = (
    Template((2, 9), (8, 4, 3), mask_id=4),
    Template((2, 9, 10, 11), (12, 13, 4, 14, 3), mask_id=4),
)


@pytest.mark.parametrize(("old", "new"), [(SHORT, LONG), (LONG, SHORT), (SHORT, SHORT)])
@pytest.mark.parametrize("lengths", [[3, 7, 0], [5], [0, 0]])
def test_a_rewrapped_batch_equals_one_that_was_wrapped_so_at_once(
    old: Template, new: Template, lengths: list[int]
) -> None:
    rows = [np.random.default_rng(length).integers(20, 90, length) for length in lengths]
    batch = TextBatch(*pad(rows, old, 1), torch.arange(10, 10 + len(rows)), views=1)
    found = rewrapped(batch, old, new, 1)
    expected = (*pad(rows, new, 1), batch.items)
    assert all(map(torch.equal, (found.input_ids, found.attention_mask, found.items), expected))


def test_a_batch_may_be_wider_than_its_rows() -> None:
    """A view of a batch keeps the padding of the longest view."""
    ids, mask = pad([np.arange(20, 23), np.arange(30, 39)], SHORT, 0)
    batch = TextBatch(ids, mask, torch.arange(1), views=2).view(0)
    expected = pad([np.arange(20, 23)], LONG, 0)
    found = rewrapped(batch, SHORT, LONG, 0)
    assert all(map(torch.equal, (found.input_ids, found.attention_mask), expected))
