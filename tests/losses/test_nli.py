"""NLI as a softmax over pair features, against float64.

consert.md, section 3; sbert.md, section 1; semisupervised.md, section 2; diffaug.md, section 3.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch
from harness.errors import UserError
from harness.losses.nli import PairClassifier, labels_of, pair_loss, triplet_loss

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


def cross_entropy(
    built: PairClassifier, first: np.ndarray, second: np.ndarray, label: int
) -> float:
    """The cross entropy of a pair, from [u, v, |u - v|] and (in a wider layer) max(u, v)^2."""
    features = [
        *first,
        *second,
        *(abs(one - other) for one, other in zip(first, second, strict=True)),
    ]
    if built.linear.in_features == 4 * WIDTH:
        features += [max(one, other) ** 2 for one, other in zip(first, second, strict=True)]
    weight, bias = (
        part.detach().double().numpy() for part in (built.linear.weight, built.linear.bias)
    )
    logits = weight @ np.array(features) + bias
    return math.log(sum(math.exp(value) for value in logits)) - float(logits[label])


def mean_loss(built: PairClassifier, pairs: Sequence[tuple[np.ndarray, np.ndarray, int]]) -> float:
    return sum(cross_entropy(built, *pair) for pair in pairs) / len(pairs)


@pytest.mark.parametrize("squared_maximum", [False, True])
def test_pair_loss(squared_maximum: bool) -> None:
    built = classifier(3, squared_maximum=squared_maximum)
    first, second, labels = vectors(0), vectors(1), [0, 2, 1, 1, 0]
    expected = mean_loss(built, list(zip(first, second, labels, strict=True)))
    assert pair_loss(built, *tensors(first, second), torch.tensor(labels)).item() == pytest.approx(
        expected, rel=1e-5
    )
    swapped = pair_loss(built, *tensors(second, first), torch.tensor(labels)).item()
    assert swapped != pytest.approx(expected, rel=1e-2), (
        "premise and hypothesis have weights of their own"
    )


@pytest.mark.parametrize("squared_maximum", [False, True])
def test_triplets_are_two_pairs_without_a_neutral(squared_maximum: bool) -> None:
    """Entailment is class 1 and contradiction is class 0. The mean is over 2B pairs."""
    built = classifier(2, squared_maximum=squared_maximum)
    premises, entailments, contradictions = vectors(2), vectors(3), vectors(4)
    pairs = [(one, other, 1) for one, other in zip(premises, entailments, strict=True)]
    pairs += [(one, other, 0) for one, other in zip(premises, contradictions, strict=True)]
    found = triplet_loss(built, *tensors(premises, entailments, contradictions)).item()
    assert found == pytest.approx(mean_loss(built, pairs), rel=1e-5)


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
        mean_loss(built, list(zip(first, second, labels, strict=True))), rel=0.05
    )


@pytest.mark.parametrize(("views", "labels"), [(2, None), (3, torch.zeros(2)), (1, None)])
def test_a_corpus_without_labelled_pairs_is_refused(
    views: int, labels: torch.Tensor | None
) -> None:
    nothing = torch.zeros(2 * views, 3, dtype=torch.long)
    with pytest.raises(UserError, match="premise, hypothesis and label"):
        labels_of(TextBatch(nothing, nothing, torch.arange(2), views, labels))
