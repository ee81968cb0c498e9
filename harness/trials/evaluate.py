"""Measures a model with suites: embeds all sentences once, scores task by task, makes records."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np

from harness.data.corpora import source
from harness.data.hub import model_shape
from harness.data.user_modules import names_of_records
from harness.device import device
from harness.encoders.pretrained import check_loadable
from harness.errors import UserError, reason
from harness.evaluation.embedder import Embedder
from harness.evaluation.kept import KeptEmbeddings, keep_pairs
from harness.evaluation.overlap import contamination
from harness.evaluation.scores import Scores
from harness.evaluation.search import nearest_texts
from harness.evaluation.suites import Embeddings, Suite
from harness.evaluation.suites import suite as suite_called
from harness.files import cache_folder
from harness.steps import Steps, unheard
from harness.training.memory import Peak, peak_memory
from harness.trials.lookup import MeasuredModel, evaluation_key
from harness.trials.record import Record, Status
from harness.trials.run import sizes, trained, trained_digest
from harness.trials.store import Store
from harness.trials.store_folders import pairs_file
from harness.trials.trial import describe, key, revisions

Value = TypeVar("Value")
Missing = dict[tuple[str, str], str]
"""(suite, task) -> why it has no score"""


class Measurement:
    """A model, ready to embed; every sentence is embedded once for all suites."""

    def __init__(
        self, model: MeasuredModel, store: Store, *, keep: bool = False, steps: Steps = unheard
    ) -> None:
        """Load the model, or train it when the weights of its trial are not kept.

        `keep`: write the embeddings to the cache, for later suites; the ones in the cache are read
        in any case. `steps`: hears what is being done. Raises UserError when the model cannot be
        loaded.
        """
        self.steps, record = steps, model.record
        for name in model.trial.declared.models:
            # An exported folder has modules of ours in the place of a model of transformers.
            if "model_type" in model_shape(name):
                check_loadable(name)
        with names_of_records():
            self.weights = store.kept_weights(key(model.trial))
            """The file of the trial's weights, beside which the cosines of test pairs are kept"""
            self.method, kit, digest = trained(
                model.trial,
                self.weights,
                record.weights_digest if record else None,
                lambda now: steps("training the model again", now.step, now.total_steps),
            )
        self.model = replace(model, record=record and replace(record, weights_digest=digest))
        """The model, with the weights that are measured, whatever its record names"""
        self.embedder = Embedder(self.method, kit)
        self.embedder.progress = partial(steps, "embedding sentences")
        weights_digest = trained_digest(self.method, kit)
        self.folder = cache_folder() / "embeddings" / key(model.trial) / weights_digest
        """The folder of the kept embeddings"""
        self._kept = {
            dev: KeptEmbeddings(self.folder / split, self.embedder, write=keep)
            for dev, split in ((False, "test"), (True, "dev"))
        }

    def embed(self, texts: list[str], *, dev: bool = False) -> np.ndarray:
        """The vectors of the texts, (len(texts), hidden).

        `dev`: embed as for choosing a checkpoint, where that differs from the tests.
        """
        return self._kept[dev](texts, dev=dev)

    def apart(self, suite: Suite, task: str) -> bool:
        """Whether the sentences of a task have other vectors than those of the tests."""
        return task in suite.card.dev_tasks and self.embedder.method.dev_differs


def evaluations(measurement: Measurement, suites: Sequence[Suite]) -> Iterator[Record]:
    """Yield the record of each suite as soon as it is measured.

    A task without data or without a score is named in the record's `reason`; the other tasks have
    their scores.
    """
    missing: Missing = {}
    with peak_memory(device()) as memory:
        vectors = _embedded(measurement, suites, missing)
        # All suites share this embedding, and each record has the whole cost of it.
        embedder = measurement.embedder
        shared = embedder.seconds, embedder.sentences
        for suite in suites:
            started, clock = datetime.now(UTC), time.perf_counter()
            embedder.seconds, embedder.sentences = shared
            scores = _scores(measurement, suite, vectors, missing)
            pairs = _together(suite, scores, suite.tests).pairs
            keep_pairs(pairs, pairs_file(measurement.weights, suite.name))
            seconds = shared[0] + time.perf_counter() - clock
            memory.measure()
            record = _record(measurement, suite, scores, _reasons(suite, missing), memory)
            yield replace(record, started=started, wall_seconds=seconds)


def _embedded(
    measurement: Measurement, suites: Sequence[Suite], missing: Missing
) -> dict[bool, Embeddings]:
    """The vectors for tests (False) and for dev tasks that differ (True), in one pass each.

    The result is empty when embedding fails; `missing` then has the reason for every task.
    """
    texts: dict[bool, list[list[str]]] = {False: [], True: []}
    for suite in suites:
        for task in suite.data:
            try:
                texts[measurement.apart(suite, task)].append(suite.texts(task))
            except Exception as error:  # a user's suite may raise anything
                missing[suite.name, task] = reason(error)
    try:
        return {
            dev: Embeddings(measurement.embed, chain(*lists), dev=dev)
            for dev, lists in texts.items()
            if lists
        }
    except Exception as error:  # a user's method may raise anything, too
        tasks = [(suite.name, task) for suite in suites for task in suite.data]
        missing |= {place: reason(error) for place in tasks if place not in missing}
        return {}


def _scores(
    measurement: Measurement, suite: Suite, vectors: dict[bool, Embeddings], missing: Missing
) -> dict[str, Scores]:
    """Task -> its scores, for the tasks that have scores."""
    scores: dict[str, Scores] = {}
    for done, task in enumerate(suite.data):
        if (suite.name, task) in missing:
            continue
        measurement.steps(f"scoring the tasks of {suite.name}", done, len(suite.data))
        try:
            measured = suite.measure(task, vectors[measurement.apart(suite, task)])
            suite.joined({**scores, task: measured})  # it raises where another task has such a name
            scores[task] = measured
        except Exception as error:
            missing[suite.name, task] = reason(error)
    return scores


def _reasons(suite: Suite, missing: Missing) -> str | None:
    """The tasks of a suite that have no score, and the reasons; None when nothing is missing."""
    tasks: dict[str, list[str]] = {}
    for (name, task), why in missing.items():
        if name == suite.name and task in suite.data:
            tasks.setdefault(why, []).append(task)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in tasks.items()) or None


def _record(
    measurement: Measurement,
    suite: Suite,
    scores: dict[str, Scores],
    missing: str | None,
    memory: Peak,
) -> Record:
    model, embedder = measurement.model, measurement.embedder
    tests = _together(suite, scores, suite.tests)
    tests = tests | suite.averaged(tests)
    devs = _together(suite, scores, suite.card.dev_tasks)
    status: Status = "finished"
    if missing:
        status = "partial" if scores else "failed"
    stored, own = model.record, describe(model.trial)
    corpora = model.trial.declared.corpora.values()
    return replace(
        own,
        key=evaluation_key(model, suite),
        role="evaluation",
        suite=suite.name,
        suite_card=suite.dumped_card(),
        selected_by=suite.card.dev,
        evaluates=key(model.trial),
        status=status,
        reason=missing,
        dev=devs.metrics,
        test=tests.metrics,
        details=tests.details | devs.details,
        uncertainty=tests.uncertainty | devs.uncertainty,
        contamination=_known(lambda: contamination(corpora, suite)) if scores else {},
        steps=stored.steps if stored else 0,
        evaluation_seconds=embedder.seconds,
        sentences_per_second=embedder.sentences / embedder.seconds if embedder.seconds else None,
        **sizes(measurement.method, memory),
        parameters_trainable=stored.parameters_trainable if stored else 0,
        precision=stored.precision if stored else "fp32",
        revisions=_known(lambda: revisions(model.trial, suite)) or own.revisions,
    )


def _known(facts: Callable[[], dict[str, Value]]) -> dict[str, Value]:
    """Facts about all that was read; nothing where a test has no data here."""
    try:
        return facts()
    except UserError:
        return {}


def _together(suite: Suite, scores: dict[str, Scores], tasks: Iterable[str]) -> Scores:
    return suite.joined({task: scores[task] for task in tasks if task in scores})


class SentenceModel:
    """A model that ranks the sentences of STS-B test or of a corpus, and compares sentences."""

    def __init__(
        self,
        model: MeasuredModel,
        store: Store,
        steps: Steps = unheard,
        *,
        corpus: str | None = None,
    ) -> None:
        """Load the model and embed the sentences.

        steps: hears what is being done. corpus: the name of one, whose texts take the place of
        those of STS-B test. Raises UserError when the model or the sentences cannot be read.
        """
        if corpus is None:
            texts: list[str] = suite_called("retrieval").load("retrieval").texts
        else:
            read = source(corpus)
            texts = list(chain.from_iterable(read.corpus(read.paths()).columns))
        self._embed = Measurement(model, store, steps=steps).embed
        self._texts = list(dict.fromkeys(texts))
        self._vectors = self._embed(self._texts)

    def nearest(self, query: str, count: int) -> list[tuple[str, float]]:
        """The `count` sentences nearest to a query, each with its cosine, nearest first."""
        vector = self._embed([query])[0]
        return nearest_texts(query, vector, self._texts, self._vectors, count)

    def cosine(self, one: str, other: str) -> float:
        """The cosine of two sentences, between -1 and 1."""
        first, second = np.asarray(self._embed([one, other]), np.float64)
        return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
