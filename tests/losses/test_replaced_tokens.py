"""Replaced-token detection: the rules of corruption (diffcse.md, sections 1.2 and 1.4)."""

from typing import cast

import pytest
import torch

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.plugin.replaced_tokens import ReplacedTokenConfig
from harness.views.edits import Edited, corrupt
from harness.views.masking import Masked

CLS, SEP, MASK, PAD = 101, 102, 103, 0


class Script:
    """A generator whose best pieces are written down. It remembers what it was asked for."""

    def __init__(self, best: list[list[int]]) -> None:
        self.best = torch.tensor(best)

    def __call__(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, _: torch.Tensor | None = None
    ) -> torch.Tensor:
        self.seen = input_ids.clone(), attention_mask.clone()
        return self.best.clone()

    def corrupt(self, batch: TextBatch, masked: list[list[int]], **options: bool) -> Edited:
        ids = torch.tensor(masked)
        return corrupt(
            cast("Generator", self), batch, Masked(ids, ids != batch.input_ids), **options
        )


def batch_of(rows: list[list[int]], mask: list[list[int]]) -> TextBatch:
    return TextBatch(torch.tensor(rows), torch.tensor(mask), torch.arange(len(rows)))


ORIGINAL = [
    # [CLS]  kept  restored  replaced  unmasked but changed  [SEP]
    [CLS, 11, 12, 13, 14, SEP],
    [CLS, 21, SEP, PAD, PAD, PAD],
]
REAL = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]
MASKED = [[CLS, 11, MASK, MASK, 14, SEP], [CLS, MASK, SEP, PAD, PAD, PAD]]
BEST = [[999, 11, 12, 500, 501, 502], [998, 21, SEP, 503, 504, 505]]


def test_corruption_rules() -> None:
    generator, batch = Script(BEST), batch_of(ORIGINAL, REAL)
    edited = generator.corrupt(batch, MASKED)
    assert batch.input_ids.tolist() == ORIGINAL
    assert edited.batch.input_ids.tolist() == [
        [CLS, 11, 12, 500, 501, 502],
        [CLS, 21, SEP, 0, 0, 0],
    ]
    assert edited.labels.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert edited.batch.attention_mask.tolist() == REAL
    assert edited.kinds.tolist() == [0, 0]
    assert generator.seen[0].tolist() == MASKED, "the generator reads the masked text"
    assert generator.seen[1].tolist() == REAL, "the generator sees no padding"


def test_only_masked_positions_change_where_that_is_asked() -> None:
    edited = Script(BEST).corrupt(batch_of(ORIGINAL, REAL), MASKED, only_masked=True)
    assert edited.batch.input_ids.tolist() == [[CLS, 11, 12, 500, 14, SEP], [CLS, 21, SEP, 0, 0, 0]]
    assert edited.labels.tolist() == [[0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]]


def test_padding_of_another_id_becomes_zero_and_is_not_replaced() -> None:
    """RoBERTa pads with the id 1."""
    edited = Script([[5, 6, 7, 8]]).corrupt(
        batch_of([[9, 6, 1, 1]], [[1, 1, 0, 0]]), [[9, 6, 1, 1]]
    )
    assert edited.batch.input_ids.tolist() == [[9, 6, 0, 0]]
    assert edited.labels.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("encoder", "expected"),
    [
        ("bert-base-uncased", "distilbert-base-uncased"),
        ("bert-large-uncased", "distilbert-base-uncased"),
        ("roberta-base", "distilroberta-base"),
        ("tiny-bert", "tiny-bert"),
    ],
)
def test_the_generator_has_the_encoders_vocabulary(encoder: str, expected: str) -> None:
    """The ids of another tokenizer could be out of range."""
    assert ReplacedTokenConfig(encoder=encoder).generator == expected
    assert ReplacedTokenConfig(encoder=encoder, generator="mine").generator == "mine"
