"""NLI as a softmax over pair features, against float64.

consert.md, section 3; sbert.md, section 1; semisupervised.md, section 2; diffaug.md, section 3.
"""

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch
from harness.errors import UserError
from harness.losses.nli import PairClassifier, labels_of, pair_loss, triplet_loss
from tests.methods.references import labelled, nli_loss

WIDTH = 6


def vectors(seed: int, rows: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, WIDTH))


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.tensor(array, dtype=torch.float32) for array in arrays]


def classifier(classes: int, *, squared_maximum: bool = False) -> PairClassifier:
    torch.manual_seed(0)
    built = PairClassifier(WIDTH, classes, squared_maximum=squared_maximum)
    torch.nn.init.normal_(built.linear.weight)  # so that its output is far from uniform
    torch.nn.init.normal_(built.linear.bias)
    return built


@pytest.mark.parametrize("squared_maximum", [False, True])
def test_pair_loss(squared_maximum: bool) -> None:
    built = classifier(3, squared_maximum=squared_maximum)
    first, second, labels = vectors(0), vectors(1), [0, 2, 1, 1, 0]
    expected = nli_loss(built, list(zip(first, second, labels, strict=True)))
    assert pair_loss(built, *tensors(first, second), torch.tensor(labels)).item() == pytest.approx(
        expected, rel=1e-5
    )
    swapped = pair_loss(built, *tensors(second, first), torch.tensor(labels)).item()
    assert swapped != pytest.approx(expected, rel=1e-2), (
        "premise and hypothesis have weights of their own"
    )


@pytest.mark.parametrize("squared_maximum", [False, True])
def test_triplets_are_two_pairs_without_a_neutral(squared_maximum: bool) -> None:
    built = classifier(2, squared_maximum=squared_maximum)
    views = vectors(2), vectors(3), vectors(4)
    expected = nli_loss(built, labelled(np.stack(views, axis=1).reshape(15, WIDTH)))
    assert triplet_loss(built, *tensors(*views)).item() == pytest.approx(expected, rel=1e-5)


def test_gradient_reaches_both_sentences_and_the_classifier() -> None:
    built = classifier(3, squared_maximum=True)
    inputs = [tensor.requires_grad_() for tensor in tensors(vectors(0, 3), vectors(1, 3))]
    pair_loss(built, *inputs, torch.tensor([0, 1, 2])).backward()
    for parameter in (*inputs, *built.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("classes", "squared_maximum", "expected"),
    [(3, False, 6_915), (3, True, 9_219), (2, False, 4_610)],
)
def test_parameters_and_how_they_start(classes: int, squared_maximum: bool, expected: int) -> None:
    """2304 -> 3 (SBERT) or 3072 -> 3 (ConSERT), with N(0, 0.02) weights and zero bias."""
    built = PairClassifier(768, classes, squared_maximum=squared_maximum)
    assert sum(parameter.numel() for parameter in built.parameters()) == expected
    assert built.linear.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert (built.linear.bias == 0).all()


def test_bf16_autocast_runs_and_the_loss_is_float32() -> None:
    built = classifier(3)
    first, second, labels = vectors(0), vectors(1), [0, 2, 1, 1, 0]
    with torch.autocast("cpu", torch.bfloat16):
        loss = pair_loss(built, *tensors(first, second), torch.tensor(labels))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(
        nli_loss(built, list(zip(first, second, labels, strict=True))), rel=0.05
    )


@pytest.mark.parametrize(("views", "labels"), [(2, None), (3, torch.zeros(2)), (1, None)])
def test_a_corpus_without_labelled_pairs_is_refused(
    views: int, labels: torch.Tensor | None
) -> None:
    nothing = torch.zeros(2 * views, 3, dtype=torch.long)
    with pytest.raises(UserError, match="premise, hypothesis and label"):
        labels_of(TextBatch(nothing, nothing, torch.arange(2), views, labels))
