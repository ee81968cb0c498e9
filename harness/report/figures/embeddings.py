"""What the figures of embeddings draw: models with their vectors of sentence pairs."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Drawn:
    """A model to draw: its vectors of the first and the second sentences, (pairs, hidden) each."""

    label: str
    first: np.ndarray
    second: np.ndarray
