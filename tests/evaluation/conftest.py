"""Classification by scikit-learn alone, for the tests of the transfer tasks."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from harness.evaluation import transfer_tasks


@pytest.fixture
def problem() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """problem(rows, classes, seed): features (rows, 12) float32, and labels that depend on them."""
    width = 12

    def make(rows: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(seed)
        # Directions of very different spread, as those of embeddings are.
        mixing = generator.normal(size=(width, width)) * np.geomspace(0.02, 3, width)
        features = generator.normal(size=(rows, width)) @ mixing + generator.normal(size=width)
        scores = features @ generator.normal(size=(width, classes))
        scores += generator.gumbel(size=(rows, classes)) * 2
        return features.astype(np.float32), scores.argmax(1)

    return make


@pytest.fixture
def fitted() -> Callable[..., LogisticRegression]:
    """fitted(features, labels, weight_decay): scikit-learn's model at the minimum."""

    def fit(features: np.ndarray, labels: np.ndarray, weight_decay: float) -> LogisticRegression:
        strength = (2 if labels.max() == 1 else 1) / (weight_decay * len(labels))
        model = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-9, max_iter=1000)
        return model.fit(features.astype(np.float64), labels)

    return fit


@pytest.fixture
def stratified() -> Callable[..., list[tuple[np.ndarray, np.ndarray]]]:
    """stratified(labels, folds): SentEval's folds as (rows, held-out rows)."""

    def split(labels: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
        splitter = StratifiedKFold(n_splits=folds, shuffle=True, random_state=1111)
        return list(splitter.split(labels, labels))

    return split


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search goes on to where float32 ends, so that every row falls on the right side."""
    monkeypatch.setattr(transfer_tasks, "TOLERANCE", 5e-5)
