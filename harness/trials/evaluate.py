"""Suites on a model: embed everything once, score task by task, one record a suite."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np

from harness import PROTOCOL
from harness.device import device
from harness.errors import UserError, reason
from harness.evaluation.embedder import Embedder
from harness.evaluation.kept_embeddings import KeptEmbeddings
from harness.evaluation.suites import Embeddings, Scores, Suite
from harness.files import cache_folder
from harness.training.memory import Peak, peak_memory
from harness.trials.lookup import Model
from harness.trials.run import scores_record, size_record, trained
from harness.trials.store import Store
from harness.trials.trial import describe, key

Told = Callable[[str], None]


class Measurement:
    """A model whose sentences are embedded once for all that is measured."""

    def __init__(
        self, model: Model, store: Store, *, keep: bool = False, told: Told = lambda _: None
    ) -> None:
        """`keep`: write the embeddings to the cache, for later suites; kept ones are read in any case. `told`: what a
        person waiting would like to know.

        Raises UserError when the model cannot be loaded.
        """
        self.model, self.told = model, told
        weights = store.weights(key(model.trial))
        self.method, kit = trained(
            model.trial, weights, lambda now: told(f"training: {now.step}/{now.total_steps}")
        )
        self.embedder = Embedder(self.method, kit)
        self.embedder.progress = lambda done, total: told(f"embedding: {done}/{total} sentences")
        self.folder = cache_folder() / "embeddings" / key(model.trial)
        """Where embeddings are kept"""
        self._kept = {
            dev: KeptEmbeddings(self.folder / split, self.embedder, write=keep)
            for dev, split in ((False, "test"), (True, "dev"))
        }

    def embed(self, texts: list[str], *, dev: bool = False) -> np.ndarray:
        """(len(texts), hidden); `dev`: as for choosing a checkpoint, where that differs."""
        return self._kept[dev](texts, dev=dev)

    def apart(self, suite: Suite, task: str) -> bool:
        """Whether a task's sentences have other vectors than the tests'."""
        return task in suite.dev_tasks and self.embedder.dev_differs


def evaluation_key(model: Model, suite: Suite) -> str:
    """Digest of all that decides the scores: the model's trial, the suite, its data."""
    try:
        digest = suite.digest()
    except UserError:
        digest = "missing"
    identity = [key(model.trial), suite.name, digest, PROTOCOL]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def evaluations(measurement: Measurement, suites: Sequence[Suite]) -> Iterator[dict[str, Any]]:
    """The record of each suite, as soon as it is there. A task without data or without a score is left out and named
    in `reason`; the others have theirs."""
    missing: dict[tuple[str, str], str] = {}
    with peak_memory(device()) as memory:
        vectors = _embedded(measurement, suites, missing)
        for suite in suites:
            started, clock = datetime.now(UTC), time.perf_counter()
            found = _scores(measurement, suite, vectors, missing)
            seconds = time.perf_counter() - clock
            memory.measure()
            yield _record(measurement, suite, found, _reasons(suite, missing), memory) | {
                "started": started,
                "wall_seconds": measurement.embedder.seconds + seconds,
            }


def _embedded(
    measurement: Measurement, suites: Sequence[Suite], missing: dict[tuple[str, str], str]
) -> dict[bool, Embeddings]:
    """The vectors for tests (False) and for dev tasks that differ (True), in one pass each; none when it fails."""
    texts: dict[bool, list[list[str]]] = {False: [], True: []}
    for suite in suites:
        for task in suite.data:
            try:
                texts[measurement.apart(suite, task)].append(suite.load(task).texts)
            except Exception as error:  # a user's suite may raise anything
                missing[suite.name, task] = reason(error)
    try:
        return {
            dev: Embeddings(measurement.embed, chain(*lists), dev=dev)
            for dev, lists in texts.items()
            if lists
        }
    except Exception as error:  # so may a user's method
        tasks = [(suite.name, task) for suite in suites for task in suite.data]
        missing |= {place: reason(error) for place in tasks if place not in missing}
        return {}


def _scores(
    measurement: Measurement,
    suite: Suite,
    vectors: dict[bool, Embeddings],
    missing: dict[tuple[str, str], str],
) -> dict[str, Scores]:
    """Task -> its scores."""
    found: dict[str, Scores] = {}
    for task in suite.data:
        if (suite.name, task) in missing:
            continue
        measurement.told(f"{suite.name}: scoring {task}")
        try:
            found[task] = suite.measure(task, vectors[measurement.apart(suite, task)])
        except Exception as error:
            missing[suite.name, task] = reason(error)
    return found


def _reasons(suite: Suite, missing: dict[tuple[str, str], str]) -> str | None:
    """What is missing, and why; tasks with one reason together."""
    tasks: dict[str, list[str]] = {}
    for (name, task), why in missing.items():
        if name == suite.name:
            tasks.setdefault(why, []).append(task)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in tasks.items()) or None


def _record(
    measurement: Measurement,
    suite: Suite,
    found: dict[str, Scores],
    missing: str | None,
    memory: Peak,
) -> dict[str, Any]:
    model, embedder = measurement.model, measurement.embedder
    tests = reduce(
        Scores.__or__, (found[task] for task in suite.tests if task in found), Scores({})
    )
    tests = tests | suite.averaged(tests)
    devs = reduce(
        Scores.__or__, (found[task] for task in suite.dev_tasks if task in found), Scores({})
    )
    everything = Scores(
        tests.metrics, tests.details | devs.details, tests.uncertainty | devs.uncertainty
    )
    known = model.record or {}
    return {
        **describe(model.trial),
        "key": evaluation_key(model, suite),
        "role": "evaluation",
        "suite": suite.name,
        "evaluates": key(model.trial),
        "status": ("partial" if found else "failed") if missing else "finished",
        "reason": missing,
        "dev": devs.metrics,
        **scores_record(everything),
        "steps": known.get("steps", 0),
        "evaluation_seconds": embedder.seconds,
        "sentences_per_second": embedder.sentences / embedder.seconds if embedder.seconds else None,
        **size_record(measurement.method, memory),
        "parameters_trainable": known.get("parameters_trainable", 0),
        "precision": known.get("precision", "fp32"),
    }
