"""SentEval's own classifier against a plain loop that trains one layer after the other."""

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from harness.data.senteval import DATASETS
from harness.evaluation.senteval_classifier import (
    FAST_MODE,
    TEST_MODE,
    Fold,
    Rows,
    fit,
    nested_cross_validation,
    single_test,
    split_fold,
    task_features,
)

Make = Callable[..., Any]
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
CPU = torch.device("cpu")


class Reference:
    """One layer as SentEval trains it: evaluation_protocol.md, section 2.1, step by step."""

    def __init__(self, width: int, classes: int, penalty: float, *, fast: bool = False) -> None:
        # Both generators start anew for every layer.
        np.random.seed(1111)
        torch.manual_seed(1111)
        self.layer = nn.Linear(width, classes)
        kind = torch.optim.RMSprop if fast else torch.optim.Adam
        self.optimiser = kind(self.layer.parameters(), weight_decay=penalty)
        self.batch, self.epochs, self.tenacity = (128, 2, 3) if fast else (64, 4, 5)
        self.passes = 0

    def fit(self, rows: np.ndarray, labels: np.ndarray, *dev: np.ndarray) -> float:
        """Train, and return the best accuracy on `dev`, or on a random 5 % of the rows."""
        if not dev:
            order = np.random.permutation(len(rows))
            held_out, fitted = np.split(order, [int(0.05 * len(rows))])
            dev = (rows[held_out], labels[held_out])
            rows, labels = rows[fitted], labels[fitted]
        best, failures, stopped = -1.0, 0, False
        while not stopped and self.passes <= 200:
            for _ in range(self.epochs):
                self.run_pass(torch.from_numpy(rows), torch.from_numpy(labels))
            score = self.score(*dev)
            if score > best:
                best, kept = score, copy.deepcopy(self.layer)
            else:
                stopped = failures >= self.tenacity
                failures += 1
        self.layer = kept
        return best

    def run_pass(self, rows: torch.Tensor, labels: torch.Tensor) -> None:
        """One pass over the rows in a new order."""
        order = torch.from_numpy(np.random.permutation(len(rows)))
        for batch in order.split(self.batch):
            loss = nn.functional.cross_entropy(self.layer(rows[batch]), labels[batch])
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
        self.passes += 1

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """The classes of the rows."""
        with torch.no_grad():
            predicted: np.ndarray = self.layer(torch.from_numpy(rows)).argmax(1).numpy()
        return predicted

    def score(self, rows: np.ndarray, labels: np.ndarray) -> float:
        """The accuracy, from 0 to 1."""
        return float((self.predict(rows) == labels).mean())


@pytest.fixture
def chosen(stratified: Make) -> Callable[..., tuple[float, float]]:
    """chosen(features, labels, folds): SentEval's penalty, and its dev accuracy x100."""

    def choose(features: np.ndarray, labels: np.ndarray, folds: int) -> tuple[float, float]:
        scores = []
        for penalty in PENALTIES:
            accuracies = []
            for rows, others in stratified(labels, folds):
                one = Reference(features.shape[1], labels.max() + 1, penalty)
                dev = features[others], labels[others]
                accuracies.append(one.fit(features[rows], labels[rows], *dev))
            scores.append(round(100 * np.mean(accuracies), 2))
        return PENALTIES[int(np.argmax(scores))], max(scores)

    return choose


@pytest.mark.slow
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_layers_side_by_side_are_those_trained_alone(
    classes: int, fast: bool, problem: Make, stratified: Make
) -> None:
    """Folds of different sizes, some with a batch more, that stop at different validations."""
    features, labels = problem(200, classes, seed=1)
    splits = [stratified(labels, 3)[0], np.split(np.arange(200), [120])]
    folds = [Fold(*split, PENALTIES) for split in splits]
    found = fit(Rows(features, labels, CPU), folds, FAST_MODE if fast else TEST_MODE)
    passes = set()
    for (rows, others), layers in zip(splits, found, strict=True):
        for penalty, accuracy, weights in zip(
            PENALTIES, layers.accuracies, layers.weights, strict=True
        ):
            one = Reference(12, classes, penalty, fast=fast)
            dev = features[others], labels[others]
            assert accuracy == pytest.approx(100 * one.fit(features[rows], labels[rows], *dev))
            expected = torch.cat([one.layer.weight, one.layer.bias[:, None]], dim=1)
            assert weights.numpy() == pytest.approx(expected.detach().numpy(), abs=1e-3)
            passes.add(one.passes)
    # The test means something only where trainings end at different times.
    assert fast or len(passes) > 2


@pytest.mark.slow
def test_a_refit_holds_out_sentevals_five_per_cent(problem: Make) -> None:
    features, labels = problem(300, 2, seed=2)
    rows = np.arange(20, 300)
    fold = split_fold(rows, 1e-3)
    assert len(fold.validated) == 14
    assert sorted([*fold.fitted, *fold.validated]) == list(rows)
    [layers] = fit(Rows(features, labels, CPU), [fold], TEST_MODE)
    one = Reference(12, 2, 1e-3)
    best = one.fit(features[20:], labels[20:])
    assert layers.accuracies == pytest.approx([100 * best])
    assert layers.weights[0, :, :-1].numpy() == pytest.approx(
        one.layer.weight.detach().numpy(), abs=1e-3
    )


def test_neither_random_state_nor_autocast_pass_its_border(problem: Make) -> None:
    """The caller's random state does not change, and the autocast of a training does not reach."""
    features, labels = problem(150, 3, seed=7)
    results = []
    for rounded in (False, True):
        torch.manual_seed(5)
        with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
            rows = Rows(features, labels, CPU)
            [layers] = fit(rows, [split_fold(np.arange(150), 1e-3)], TEST_MODE)
            results.append((layers.weights, rows.predicted(np.arange(150), layers.weights)))
        drawn = torch.rand(3)
        torch.manual_seed(5)
        assert torch.equal(torch.rand(3), drawn)
    assert torch.equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])


@pytest.mark.slow
def test_nested_cross_validation_is_sentevals(
    problem: Make, stratified: Make, chosen: Make
) -> None:
    """MR, CR, SUBJ and MPQA are scored in this way."""
    features, labels = problem(90, 2, seed=4)
    result = nested_cross_validation(features, labels, 2)
    folds = []
    for rows, others in stratified(labels, 2):
        penalty, dev = chosen(features[rows], labels[rows], 2)
        one = Reference(12, 2, penalty)
        one.fit(features[rows], labels[rows])
        folds.append((penalty, dev, 100 * one.score(features[others], labels[others])))
    penalties, devs, tests = zip(*folds, strict=True)
    assert result.penalties == penalties
    assert (result.dev, result.test) == pytest.approx((np.mean(devs), np.mean(tests)), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_cross_validation_and_one_test_are_sentevals(
    classes: int, problem: Make, chosen: Make
) -> None:
    """MRPC and TREC are scored in this way."""
    features, labels = problem(220, classes, seed=5)
    result = single_test(
        {"train": features[:120], "test": features[120:]},
        {"train": labels[:120], "test": labels[120:]},
        folds=2,
    )
    penalty, dev = chosen(features[:120], labels[:120], 2)
    one = Reference(12, classes, penalty)
    one.fit(features[:120], labels[:120])
    assert result.penalties == (penalty,)
    assert result.dev == pytest.approx(dev, abs=0.1)
    test = 100 * one.score(features[120:], labels[120:])
    assert result.test == pytest.approx(test, abs=0.1)
    assert (result.f1 is None) == (classes == 3)


@pytest.mark.slow
def test_a_given_dev_set_stops_and_chooses(problem: Make) -> None:
    """SST-2 is scored in this way."""
    features, labels = problem(300, 2, seed=6)
    parts = {"train": slice(160), "dev": slice(160, 220), "test": slice(220, 300)}
    result = single_test(
        *({name: values[part] for name, part in parts.items()} for values in (features, labels))
    )
    scores, tests = [], []
    for penalty in PENALTIES:
        one = Reference(12, 2, penalty)
        dev = features[parts["dev"]], labels[parts["dev"]]
        scores.append(round(100 * one.fit(features[:160], labels[:160], *dev), 2))
        tests.append(100 * one.score(features[220:], labels[220:]))
    best = int(np.argmax(scores))
    assert result.penalties == (PENALTIES[best],)
    assert result.dev == pytest.approx(scores[best], abs=0.1)
    assert result.test == pytest.approx(tests[best], abs=0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_a_fold_of_a_real_task_is_sentevals(stratified: Make) -> None:
    """MRPC by random word vectors: the first of ten folds, with two penalties."""
    data, words = DATASETS["mrpc"](), np.random.default_rng(0)
    vectors = defaultdict(lambda: words.normal(size=16).astype(np.float32))
    sums = np.stack([np.sum([vectors[word] for word in text.split()], 0) for text in data.texts])
    features, labels = task_features(data, sums)["train"], data["train"].labels
    rows, others = stratified(labels, 10)[0]
    given = Rows(features, labels, CPU)
    penalties = (1e-5, 1e-2)
    [layers] = fit(given, [Fold(rows, others, penalties)], TEST_MODE)
    for penalty, accuracy in zip(penalties, layers.accuracies, strict=True):
        one = Reference(32, 2, penalty)
        expected = one.fit(features[rows], labels[rows], features[others], labels[others])
        assert accuracy == pytest.approx(100 * expected, abs=0.1)
