"""The frozen generator: the best piece at every position, and the models that it refuses."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, DistilBertConfig, DistilBertForMaskedLM

from harness.data.hub import model_folder
from harness.encoders.masked_lm import ROWS_AT_ONCE, Generator
from harness.encoders.plain_attention import Dropout, dropped, replace_dropout
from harness.errors import UserError


@pytest.mark.parametrize("family", ["tiny-bert", "tiny_roberta", "distilbert"])
def test_best_pieces_are_those_of_the_whole_batch_at_once(
    family: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """RoBERTa numbers the positions from 2; DistilBERT is the generator of the papers."""
    folder = tmp_path
    if family == "distilbert":
        torch.manual_seed(0)
        sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 60}
        model = DistilBertForMaskedLM(DistilBertConfig(**sizes, initializer_range=0.2))
        model.save_pretrained(folder)
    elif family == "tiny-bert":
        folder = model_folder(family)
    else:
        folder = request.getfixturevalue(family)
    reference = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    generator = Generator(str(folder), reference.config.vocab_size).eval()
    rows = 2 * ROWS_AT_ONCE + 3  # several parts, the last one short
    ids, mask = torch.randint(5, reference.config.vocab_size, (rows, 9)), torch.ones(rows, 9).long()
    mask[::2, 4:] = 0
    ids = torch.where(mask.bool(), ids, 1)
    with torch.no_grad():
        expected = reference(input_ids=ids, attention_mask=mask).logits.argmax(dim=-1)
    assert generator.unpads
    assert torch.equal(generator(ids, mask), expected * mask)
    generator.unpads = False
    assert torch.equal(generator(ids, mask) * mask, expected * mask)


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(UserError, match=r"729 word pieces and the encoder has 30522"):
        Generator("tiny-bert", 30522)


def test_it_never_trains_and_drops_while_the_method_trains_unless_told_not() -> None:
    generator = Generator("tiny-bert", 729).train()
    assert generator.model.training
    assert not any(parameter.requires_grad for parameter in generator.parameters())
    assert not Generator("tiny-bert", 729, dropout=False).train().model.training
    assert not Generator("tiny-bert", 729).eval().model.training


# Dropout on a CPU: its rate, its scale, and what its random numbers depend on.


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rate_and_scale(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    states = torch.full((400, 501), 2.0, dtype=dtype)
    output = dropped(states, rate, training=True)
    assert output.dtype == dtype
    assert output.shape == states.shape
    lost = output == 0
    scaled = torch.tensor(2 / (1 - rate), dtype=torch.float64)
    torch.testing.assert_close(
        output[~lost].double(), scaled.expand(int((~lost).sum())),
        rtol=1e-2 if dtype == torch.bfloat16 else 1e-6, atol=0,
    )  # fmt: skip
    # Four standard deviations of the binomial distribution, over all numbers and in every column.
    for part in (lost, *lost.T):
        spread = 4.5 * math.sqrt(rate * (1 - rate) * part.numel())
        assert abs(float(part.sum()) - rate * part.numel()) < spread + 1


def test_numbers_of_a_mask_do_not_depend_on_each_other() -> None:
    torch.manual_seed(0)
    lost = (dropped(torch.ones(1 << 18), 0.3, training=True) == 0).double()
    lost -= lost.mean()
    for distance in (1, 2, 3, 4, 8, 384):  # a word of 64 bits holds four numbers
        shared = (lost[distance:] * lost[:-distance]).mean() / lost.square().mean()
        assert abs(float(shared)) < 4 / math.sqrt(len(lost))


def test_masks_follow_the_state_of_torch() -> None:
    states = torch.ones(37, 5)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = (dropped(states, 0.5, training=True) for _ in range(2))
    assert not first.equal(second)
    torch.set_rng_state(before)
    assert dropped(states, 0.5, training=True).equal(first)
    assert dropped(states, 0.5, training=True).equal(second)


def test_the_gradient_has_the_same_mask() -> None:
    states = torch.randn(50, 7, requires_grad=True)
    output = dropped(states, 0.25, training=True)
    output.sum().backward()
    assert states.grad is not None
    torch.testing.assert_close(states.grad * states.detach(), output.detach())


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.5, False), (1.0, True)])
def test_ends_of_the_range(rate: float, training: bool) -> None:
    states = torch.randn(9, 4)
    found = dropped(states, rate, training=training)
    assert found.equal(torch.zeros(9, 4) if training and rate else states)


def test_modules_of_a_model_are_replaced() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.2)))
    names = list(model.state_dict())
    replace_dropout(model)
    assert [each.p for each in model.modules() if isinstance(each, Dropout)] == [0.5, 0.2]
    assert list(model.state_dict()) == names
    states = torch.ones(1000, 3)
    assert (model[1](states) == 0).float().mean() > 0.4
    assert model.eval()[1](states).equal(states)
