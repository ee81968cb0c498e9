"""Template denoising against plain calls of transformers with written-out positions.

diffaug.md, section 2; promptbert.md, section 2.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template
from harness.encoders.backbone import Encoder
from harness.modules.denoising import distinct_lengths, template_vectors
from harness.modules.prompts import DeepPrompts

MASK = 4
BEHIND = Template((2, 9, 10), (11, 12, MASK, 3), mask_id=MASK)
BEFORE = Template((2, MASK, 10), (11, 3), mask_id=MASK)


@pytest.fixture(params=["tiny_encoder", "tiny_roberta"])
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture
def encoder(folder: Path) -> Encoder:
    return Encoder(str(folder)).double().eval()


def expected(folder: Path, template: Template, numbers: list[list[int]]) -> np.ndarray:
    """The state at the mask of the bare template at given positions, by transformers alone."""
    model = (
        AutoModel.from_pretrained(folder, attn_implementation="eager", add_pooling_layer=False)
        .double()
        .eval()
    )
    pieces = [*template.begin, *template.end]
    ids, positions = torch.tensor([pieces] * len(numbers)), torch.tensor(numbers)
    states = model(
        input_ids=ids, attention_mask=torch.ones_like(ids), position_ids=positions
    ).last_hidden_state
    return states[:, pieces.index(MASK)].detach().numpy()


def first(folder: Path) -> int:
    """The positions of RoBERTa start behind its padding id, 1."""
    return 2 if "roberta" in folder.name else 0


@pytest.mark.slow
@pytest.mark.parametrize("template", [BEHIND, BEFORE])
@pytest.mark.parametrize("offset", [0, 6])
def test_the_end_keeps_its_positions_behind_a_sentence(
    encoder: Encoder, folder: Path, template: Template, offset: int
) -> None:
    lengths, start = [0, 1, 5, 12], first(folder) + offset
    numbers = [
        [start + place for place in range(len(template.begin))]
        + [start + len(template.begin) + length + place for place in range(len(template.end))]
        for length in lengths
    ]
    found = template_vectors(encoder, template, torch.tensor(lengths), position_offset=offset)
    assert np.abs(found.detach().numpy() - expected(folder, template, numbers)).max() < 1e-10
    assert (found[1:] - found[:-1]).abs().amax(dim=1).min() > 1e-3, (
        "every length has its own vector"
    )


def test_without_shift_all_lengths_have_one_vector(encoder: Encoder, folder: Path) -> None:
    found = template_vectors(encoder, BEHIND, torch.tensor([0, 3, 9]), shift=False).detach().numpy()
    numbers = [[first(folder) + place for place in range(len(BEHIND))]] * 3
    assert np.abs(found - expected(folder, BEHIND, numbers)).max() < 1e-10


def test_a_prefix_reaches_the_template(encoder: Encoder) -> None:
    prompts = DeepPrompts(encoder, 3).double().eval()
    with torch.no_grad():
        prompts.table.normal_()
    lengths = torch.tensor([2, 4])
    plain, prefixed = (
        template_vectors(encoder, BEHIND, lengths, **given)
        for given in ({}, {"prefix": prompts(2)})
    )
    assert (plain - prefixed).abs().max() > 1e-2


def test_lengths_are_those_of_the_bare_sentences() -> None:
    ids, mask = pad([np.arange(20, 20 + length) for length in (4, 0, 9, 4)], BEHIND, 0)
    distinct, row = distinct_lengths(TextBatch(ids, mask, torch.arange(4)), BEHIND)
    assert distinct.tolist() == [0, 4, 9]
    assert distinct[row].tolist() == [4, 0, 9, 4]


def test_dropout_follows_the_mode(encoder: Encoder) -> None:
    lengths = torch.tensor([3, 3])
    one, other = template_vectors(encoder.train(), BEHIND, lengths)
    assert (one - other).abs().max() > 1e-2, "in training the pass has dropout"
    one, other = template_vectors(encoder.eval(), BEHIND, lengths)
    assert torch.allclose(one, other, atol=1e-12)
