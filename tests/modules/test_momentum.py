"""The momentum copy of an encoder and the queue of its vectors (esimcse.md, section 2)."""

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.encoders.backbone import Encoder
from harness.modules.momentum import MomentumEncoder, VectorQueue
from tests.rows_and_models import text


@pytest.fixture(params=["tiny_encoder", "tiny_roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    folder: Path = request.getfixturevalue(request.param)
    return Encoder(str(folder))


def test_it_starts_from_the_pretrained_weights(encoder: Encoder) -> None:
    copy = MomentumEncoder(encoder, 0.995)
    for (name, mine), theirs in zip(
        copy.encoder.named_parameters(), encoder.parameters(), strict=True
    ):
        assert torch.equal(mine, theirs), name
        assert mine.data_ptr() != theirs.data_ptr(), name
    assert torch.equal(copy.encoder(text([6, 6, 6])), encoder.eval()(text([6, 6, 6])))


def test_it_may_start_random_as_in_the_released_code(encoder: Encoder) -> None:
    torch.manual_seed(0)
    copy = MomentumEncoder(encoder, 0.995, "random")
    matrices = [
        (mine, theirs)
        for mine, theirs in zip(copy.encoder.parameters(), encoder.parameters(), strict=True)
        if mine.dim() > 1
    ]
    assert matrices
    assert all((mine - theirs).abs().max() > 1e-2 for mine, theirs in matrices)
    torch.manual_seed(1)
    other = MomentumEncoder(encoder, 0.995, "random")
    assert not torch.equal(next(other.parameters()), next(copy.parameters())), (
        "drawn from torch's generator"
    )


def test_it_follows_as_a_moving_average(encoder: Encoder) -> None:
    copy = MomentumEncoder(encoder, 0.9)
    name, parameter = next(
        (n, p) for n, p in encoder.named_parameters() if n.endswith("query.weight")
    )
    slow = dict(copy.encoder.named_parameters())[name]
    expected = parameter.detach().double().numpy().copy()
    for step in range(3):
        with torch.no_grad():
            parameter.add_(0.1 * (step + 1))
        copy.follow(encoder)
        expected = 0.9 * expected + 0.1 * parameter.detach().double().numpy()
    assert np.abs(slow.detach().numpy() - expected).max() < 1e-6
    assert (slow - parameter).abs().min() > 0.1, "the encoder itself is elsewhere"


def test_the_copy_works_with_its_own_weights(encoder: Encoder) -> None:
    """Its hooks are its own, too: `at` of one encoder does not disturb the other."""
    copy = MomentumEncoder(encoder, 0.5)
    encoder.eval()
    before = copy.encoder.cls(text([6, 6, 6]))
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter))
    assert torch.equal(copy.encoder.cls(text([6, 6, 6])), before)
    edited = copy.encoder(text([6, 6, 6]), edit=lambda output: output * 0)
    assert not torch.allclose(edited[:, 0], before)
    assert encoder.reach == copy.encoder.reach == {}


def test_it_stays_in_evaluation_mode_and_does_not_train(encoder: Encoder) -> None:
    around = torch.nn.ModuleList([MomentumEncoder(encoder, 0.995), encoder])
    around.train()
    assert encoder.training
    assert not any(module.training for module in around[0].modules())
    copy = around[0].encoder
    assert torch.equal(copy(text([6, 6, 6])), copy(text([6, 6, 6]))), "no dropout"
    assert not any(parameter.requires_grad for parameter in copy.parameters())
    assert all(parameter.requires_grad for parameter in encoder.parameters())


def rows(*values: float) -> torch.Tensor:
    return torch.tensor([[value] for value in values])


def test_the_queue_keeps_the_last_ones() -> None:
    queue = VectorQueue(5, 1)
    assert queue.vectors is None
    queue.append(rows(1.0, 2.0).requires_grad_())
    assert queue.vectors is not None
    assert not queue.vectors.requires_grad
    queue.append(rows(3, 4))
    assert queue.vectors.flatten().tolist() == [1, 2, 3, 4]
    queue.append(rows(5, 6))
    assert queue.vectors.flatten().tolist() == [2, 3, 4, 5, 6]
    queue.append(rows(*range(10, 17)))
    assert queue.vectors.flatten().tolist() == [12, 13, 14, 15, 16]


def test_the_queue_is_emptied_when_the_epoch_changes() -> None:
    queue = VectorQueue(5, 1)
    queue.start(0)
    queue.append(rows(1, 2))
    queue.start(0)
    assert queue.vectors is not None
    queue.start(1)
    assert queue.vectors is None
    queue.append(rows(3))
    queue.start(1)
    assert queue.vectors is not None
    assert queue.vectors.flatten().tolist() == [3]
