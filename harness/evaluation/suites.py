"""Suites: which scores a trial gets. The dev score selects; the test scores are computed once, for final trials."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.data.corpora import GRADED
from harness.data.hub import data_file
from harness.data.senteval import archive
from harness.errors import UserError, suggest
from harness.evaluation.correlation import spearman
from harness.evaluation.embedding import Embedder
from harness.evaluation.pairs import LOADERS, YEARS, Pairs

pairs = functools.cache(lambda name: LOADERS[name]())
"""The pairs of a task by name, read once per process."""


@dataclass(frozen=True)
class Suite:
    """A dev task and test tasks, each by its name in harness.evaluation.pairs."""

    dev: str
    test: tuple[str, ...]
    files: Callable[[], list[Path]]
    """The data files, for the trial's key."""
    sentences_dev: int
    """Distinct sentences that a dev score embeds, for estimates"""
    sentences_test: int
    average: bool = True
    """Whether the tests have an average, `avg`"""

    def score_dev(self, embedder: Embedder) -> float:
        """Spearman x100 on the dev task."""
        return _scores(embedder, {self.dev: pairs(self.dev)}, dev=True)[self.dev]

    def score_test(self, embedder: Embedder) -> dict[str, float]:
        """Spearman x100 of every test task, all embedded in one pass, and the mean of the rounded scores."""
        scores = _scores(embedder, {name: pairs(name) for name in self.test})
        if self.average:
            scores["avg"] = sum(round(score, 2) for score in scores.values()) / len(scores)
        return scores


def _scores(embedder: Embedder, tasks: dict[str, Pairs], *, dev: bool = False) -> dict[str, float]:
    vectors = embedder([text for task in tasks.values() for text in (*task.first, *task.second)], dev=dev)
    scores, start = {}, 0
    for name, task in tasks.items():
        middle, stop = start + len(task), start + 2 * len(task)
        scores[name] = spearman(vectors[start:middle], vectors[middle:stop], task.gold)
        start = stop
    return scores


SUITES: dict[str, Suite] = {
    "sts": Suite("stsb-dev", (*YEARS, "stsb", "sickr"), lambda: [archive()], 2_900, 26_000),
    "graded": Suite(
        "graded-dev",
        ("graded",),
        lambda: [data_file(GRADED, name) for name in ("dev.tsv", "test.tsv")],
        sentences_dev=800,
        sentences_test=1_200,
        average=False,
    ),
}


def suite(name: str) -> Suite:
    """The suite called `name`. Raises UserError for an unknown one."""
    if name not in SUITES:
        raise UserError(f'unknown suite "{name}"{suggest(name, SUITES)}')
    return SUITES[name]
