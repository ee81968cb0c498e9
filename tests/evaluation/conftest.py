"""Problems and folds for the tests of the transfer tasks."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold


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
def stratified() -> Callable[..., list[tuple[np.ndarray, np.ndarray]]]:
    """stratified(labels, folds): SentEval's folds as (rows, held-out rows)."""

    def split(labels: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
        splitter = StratifiedKFold(n_splits=folds, shuffle=True, random_state=1111)
        return list(splitter.split(labels, labels))

    return split
