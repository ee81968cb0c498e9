"""The frozen generator: the best piece at every position, and the models that it refuses."""

import pytest
import torch
from transformers import AutoModelForMaskedLM

from harness.data.hub import model_folder
from harness.encoders.masked_lm import ROWS_AT_ONCE, Generator
from harness.errors import UserError


def test_best_pieces_are_those_of_the_whole_batch_at_once() -> None:
    torch.manual_seed(0)
    rows = 2 * ROWS_AT_ONCE + 3  # several parts, the last one short
    ids = torch.randint(5, 700, (rows, 9))
    mask = torch.ones_like(ids)
    mask[::2, 6:] = 0
    generator = Generator("tiny-bert", 729).eval()
    reference = AutoModelForMaskedLM.from_pretrained(
        model_folder("tiny-bert"), dtype=torch.float32
    ).eval()
    with torch.no_grad():
        expected = reference(input_ids=ids, attention_mask=mask).logits.argmax(dim=-1)
    assert torch.equal(generator(ids, mask)[mask.bool()], expected[mask.bool()])


def test_nothing_of_it_trains() -> None:
    assert not any(
        parameter.requires_grad for parameter in Generator("tiny-bert", 729).parameters()
    )


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(UserError, match=r"729 word pieces and the encoder has 30522"):
        Generator("tiny-bert", 30522)


def test_dropout_is_on_while_training_unless_told_not() -> None:
    assert Generator("tiny-bert", 729).train().model.training
    assert not Generator("tiny-bert", 729, dropout=False).train().model.training
    assert not Generator("tiny-bert", 729).eval().model.training
