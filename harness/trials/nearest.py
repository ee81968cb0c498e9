"""The sentences of STS-B test that a model finds nearest to a query."""

import numpy as np

from harness.evaluation.retrieval import Retrieval
from harness.evaluation.suites import Embeddings, suite
from harness.steps import Steps, unheard
from harness.trials.evaluate import Measurement
from harness.trials.lookup import MeasuredModel
from harness.trials.store import Store


class SentenceModel:
    """A model that ranks the sentences of STS-B test, and compares sentences."""

    def __init__(self, model: MeasuredModel, store: Store, steps: Steps = unheard) -> None:
        """Load the model and embed the sentences.

        steps: hears what is being done. Raises UserError when the model or the sentences cannot be
        read.
        """
        pairs = suite("retrieval").load("retrieval")
        self._embed = Measurement(model, store, steps=steps).embed
        vectors = Embeddings(self._embed, pairs.texts)
        self._retrieval = Retrieval(pairs, vectors(pairs.first), vectors(pairs.second))

    def nearest(self, query: str, count: int) -> list[tuple[str, float]]:
        """The `count` sentences nearest to a query, each with its cosine, nearest first."""
        return self._retrieval.nearest(query, self._embed([query])[0], count)

    def cosine(self, one: str, other: str) -> float:
        """The cosine of two sentences, between -1 and 1."""
        first, second = np.asarray(self._embed([one, other]), np.float64)
        return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
