"""The library mteb: how it is imported, and our vectors as one of its models."""

import copy
import importlib
import logging
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness.errors import extra

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.results import TaskResult

Vectors = Callable[[list[str]], np.ndarray]
"""Sentences -> their vectors, (sentences, hidden)"""


def mteb_package(name: str) -> ModuleType:
    """The package mteb, for the suite called `name`. Raises UserError where it is not installed."""
    with undisturbed(), extra("mteb", f'suite "{name}"'):
        found = importlib.import_module("mteb")
    logging.getLogger("mteb").setLevel(logging.ERROR)
    return found


@contextmanager
def undisturbed() -> Iterator[None]:
    """In the block, mteb may seed the random sources; afterwards they are as they were.

    Its tasks and evaluators do so. Without this, a training would go on with the same random
    numbers after every dev score.
    """
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def evaluated(task: "AbsTask", vectors: Vectors) -> "TaskResult":
    """What mteb measures on a task whose data are loaded, equal each time it is called."""
    mteb = importlib.import_module("mteb")
    fresh = copy.copy(task)
    fresh.rng_state, fresh.np_rng = copy.deepcopy((task.rng_state, task.np_rng))
    with undisturbed():
        found = mteb.evaluate(
            Model(vectors), fresh, cache=None, co2_tracker=False, show_progress_bar=False
        )
    return found.task_results[0]


class Model:
    """Our vectors as a model of mteb (its EncoderProtocol), compared by their cosines."""

    def __init__(self, vectors: Vectors) -> None:
        """A model that gives these vectors, without instructions or prompts of mteb."""
        from mteb.models import ModelMeta

        self.vectors = vectors
        self.mteb_model_meta = ModelMeta.create_empty()

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> np.ndarray:
        """The vectors of all texts in the batches, (texts, hidden)."""
        return self.vectors([text for batch in inputs for text in batch["text"]])

    def similarity(self, first: np.ndarray, second: np.ndarray) -> torch.Tensor:
        """The cosines of each vector with each, (len(first), len(second))."""
        from mteb.similarity_functions import cos_sim

        found: torch.Tensor = cos_sim(first, second)
        return found

    def similarity_pairwise(self, first: np.ndarray, second: np.ndarray) -> torch.Tensor:
        """The cosines of pairs of vectors, (pairs,)."""
        from mteb.similarity_functions import pairwise_cos_sim

        found: torch.Tensor = pairwise_cos_sim(first, second)
        return found
