"""Random vectors of texts, and problems and folds for the tests of the transfer tasks."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata
from sklearn.model_selection import StratifiedKFold


class WordVectors:
    """In place of an Embedder: the vector of a text is the sum of random vectors of its words."""

    def __init__(
        self, width: int = 24, change: Callable[[np.ndarray], np.ndarray] = lambda vectors: vectors
    ) -> None:
        self.width, self.change = width, change
        self.words: dict[str, np.ndarray] = {}
        self.calls: list[tuple[list[str], bool]] = []

    def __call__(self, texts: Sequence[str], *, dev: bool = False) -> np.ndarray:
        self.calls.append((list(texts), dev))
        sums = [np.sum([self.vector(word) for word in text.split() or [""]], 0) for text in texts]
        return self.change(np.array(sums, np.float32))

    def vector(self, word: str) -> np.ndarray:
        """The vector of a word, which depends on the word alone."""
        if word not in self.words:
            self.words[word] = np.random.default_rng(list(word.encode())).normal(size=self.width)
        return self.words[word]


def vector_of(text: str) -> np.ndarray:
    """A random vector that belongs to a text."""
    return np.random.default_rng(list(text.encode())).normal(size=8).astype(np.float32)


def embed(texts: Sequence[str], **_: bool) -> np.ndarray:
    """In place of an Embedder: random vectors of texts."""
    return np.stack([vector_of(text) for text in texts])


def rank_correlation(first: np.ndarray, second: np.ndarray, gold: Sequence[float]) -> float:
    """Spearman x100 of cosines in float64: Pearson's correlation of average ranks."""
    left, right = first.astype(np.float64), second.astype(np.float64)
    cosines = [
        float(one @ two / np.sqrt((one @ one) * (two @ two)))
        for one, two in zip(left, right, strict=True)
    ]
    return float(pearsonr(rankdata(cosines), rankdata(gold)).statistic) * 100


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
