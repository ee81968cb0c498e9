"""Replaced-token detection: masking rates, corruption rules and the loss.

They are those of diffcse.md, sections 1.2 and 1.4.
"""

import math
from typing import cast

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.losses.replaced_tokens import replaced_token_loss
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


@pytest.mark.parametrize("reduction", ["mean_all", "mean_nonpad", "sum"])
def test_detection_loss(reduction: str) -> None:
    """The default averages over padding, too, or lambda would mean another thing in each batch."""
    generator = np.random.default_rng(4)
    logits = generator.normal(size=(3, 5, 2)) * 2
    labels = generator.integers(0, 2, size=(3, 5))
    real = np.arange(5) < np.array([[5], [4], [2]])
    labels[~real] = 0
    total = {True: 0.0, False: 0.0}
    for row, position in np.ndindex(3, 5):
        zero, one = logits[row, position]
        own = (zero, one)[labels[row, position]]
        total[bool(real[row, position])] += math.log(math.exp(zero) + math.exp(one)) - own
    batch = TextBatch(
        torch.zeros(3, 5, dtype=torch.long), torch.tensor(real).long(), torch.arange(3)
    )
    edited = Edited(batch, torch.tensor(labels), torch.zeros(3))
    scores = torch.tensor(logits, dtype=torch.float32)
    expected = {
        "mean_all": sum(total.values()) / 15,
        "mean_nonpad": total[True] / 11,
        "sum": total[True],
    }
    assert replaced_token_loss(scores, edited, reduction).item() == pytest.approx(
        expected[reduction], rel=1e-6
    )  # type: ignore[arg-type]
    if reduction == "mean_all":
        assert torch.equal(
            replaced_token_loss(scores, edited), replaced_token_loss(scores, edited, reduction)
        )  # type: ignore[arg-type]


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
