"""The frozen generator: the best piece at every position, and the models that it refuses."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, DistilBertConfig, DistilBertForMaskedLM

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
    assert generator.unpads
    assert torch.equal(generator(ids, mask)[mask.bool()], expected[mask.bool()])
    generator.unpads = False
    assert torch.equal(generator(ids, mask)[mask.bool()], expected[mask.bool()])


@pytest.mark.parametrize("family", ["tiny_roberta", "distilbert"])
def test_other_families(family: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """RoBERTa numbers the positions from 2; DistilBERT is the generator of the papers."""
    folder = tmp_path
    if family == "distilbert":
        torch.manual_seed(0)
        sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 60}
        model = DistilBertForMaskedLM(DistilBertConfig(**sizes, initializer_range=0.2))
        model.save_pretrained(folder)
    else:
        folder = request.getfixturevalue(family)
    reference = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    generator = Generator(str(folder), reference.config.vocab_size).eval()
    ids, mask = torch.randint(5, 30, (7, 9)), torch.ones(7, 9, dtype=torch.long)
    mask[::2, 4:] = 0
    ids = torch.where(mask.bool(), ids, 1)
    expected = reference(input_ids=ids, attention_mask=mask).logits.argmax(dim=-1)
    assert generator.unpads
    assert torch.equal(generator(ids, mask), expected * mask)


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
