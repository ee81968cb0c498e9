"""Trials to cells: what is comparable is averaged over seeds and label subsets, what is not stays apart."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.tables.variance import Components, Draw, components, design, squares

STS_TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
AVERAGE = "avg"  # the mean over the tasks, taken within each trial
BEFORE = "-start"  # suffix of a dev metric taken before training
STSB_DEV = "stsb-dev"

IDENTITY = (
    "method",
    "setting",
    "encoder",
    "configuration",
    "source_digest",
    "data_digest",
    "model_digest",
    "precision",
    "protocol",
)
"""Columns in which two trials must agree to be averaged: all that decides a result, but for the seed, and for the
subset (in `configuration`) where only a share of the labels is used."""


@dataclass(frozen=True)
class Cell:
    """A score (Spearman x100) over n trials: mean, sample std (ddof 1; None for one trial) and, over several subsets
    of the labels, the components of its variance."""

    mean: float
    std: float | None
    n: int
    components: Components | None = None


@dataclass(frozen=True, order=True)
class Suite:
    """What a table measures: the dev metric that selects, and the test tasks."""

    dev: str
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """Comparable trials: they differ in nothing but the seed and the subset of the labels."""

    identity: tuple[Any, ...]
    keys: tuple[str, ...]
    draws: tuple[Draw, ...]
    trained: bool
    suite: Suite
    dev: Mapping[str, Cell]
    test: Mapping[str, Cell]

    @property
    def method(self) -> str:
        """Name of the plugin."""
        return str(self.identity[0])

    @property
    def setting(self) -> str:
        """unsup, semisup or sup."""
        return str(self.identity[1])

    @property
    def encoder(self) -> str:
        """Name of the pretrained model."""
        return str(self.identity[2])

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """Every hyperparameter."""
        return json.loads(self.identity[3] or "null") or {}

    @property
    def label_fraction(self) -> float | None:
        """The share of the labels that was used; None where the method has no such choice."""
        return self.configuration.get("label_fraction")

    @property
    def provenance(self) -> dict[str, Any]:
        """The digests and the protocol number."""
        return dict(zip(IDENTITY[4:], self.identity[4:], strict=True))

    @property
    def n(self) -> str:
        """Number of trials, or `5x3` for subsets x seeds; `1=` where nothing was trained: there is no seed to vary."""
        return "1=" if len(self.keys) == 1 and not self.trained else design(self.draws)

    @property
    def subsets(self) -> int:
        """On how many subsets of the labels."""
        return len({subset for subset, _ in self.draws})

    @property
    def dev_mean(self) -> float:
        """What decides between groups; never a test score. -inf where it was not measured."""
        cell = self.dev.get(self.suite.dev)
        return -math.inf if cell is None or math.isnan(cell.mean) else cell.mean


def comparable_groups(trials: pa.Table) -> list[Group]:
    """The finished final trials of the store, in groups of comparable ones, sorted."""
    final = trials.filter((pc.field("status") == "finished") & (pc.field("role") == "final")).sort_by("key")
    members: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, identity in enumerate(_identities(final)):
        members[identity].append(index)
    columns = {name: final[name].to_pylist() for name in ("key", "subset", "seed", "steps", "dev", "test")}
    found = [
        _group(identity, {name: [column[index] for index in indices] for name, column in columns.items()})
        for identity, indices in members.items()
    ]
    return sorted(found, key=lambda group: tuple(map(str, group.identity)))


def _identities(trials: pa.Table) -> Iterator[tuple[Any, ...]]:
    columns = {name: trials[name].to_pylist() for name in IDENTITY}
    columns["configuration"] = [
        text if fraction is None or fraction == 1 else _without_subset(text)
        for text, fraction in zip(columns["configuration"], trials["label_fraction"].to_pylist(), strict=True)
    ]
    return zip(*columns.values(), strict=True)


def _without_subset(configuration: str) -> str:
    values = json.loads(configuration)
    return json.dumps({name: value for name, value in values.items() if name != "subset"}, sort_keys=True)


def _group(identity: tuple[Any, ...], trials: Mapping[str, list[Any]]) -> Group:
    draws = tuple((subset or 0, seed) for subset, seed in zip(trials["subset"], trials["seed"], strict=True))
    dev, test = _scores(trials["dev"]), _scores(trials["test"])
    suite = Suite(_dev_metric(dev), _tasks(test))
    test_cells = _cells(test, draws)
    if not set(suite.tasks) <= set(test_cells):
        test_cells.pop(AVERAGE, None)  # a mean over other tasks is another quantity
    trained = any(steps != 0 for steps in trials["steps"])
    return Group(identity, tuple(trials["key"]), draws, trained, suite, _cells(dev, draws), test_cells)


def _scores(metrics: Iterable[list[tuple[str, float | None]] | None]) -> list[dict[str, float]]:
    return [{name: value for name, value in trial or () if value is not None} for trial in metrics]


def _dev_metric(trials: list[dict[str, float]]) -> str:
    """The metric that selects: STS-B dev wherever it was measured."""
    names = sorted({name for trial in trials for name in trial if not name.endswith(BEFORE)})
    return STSB_DEV if STSB_DEV in names or not names else names[0]


def _tasks(trials: list[dict[str, float]]) -> tuple[str, ...]:
    """All tasks of the suite, also those that are missing here."""
    names = {name for trial in trials for name in trial} - {AVERAGE}
    return STS_TASKS if names <= set(STS_TASKS) else tuple(sorted(names))


def _cells(trials: list[dict[str, float]], draws: Sequence[Draw]) -> dict[str, Cell]:
    """One cell for each metric that every trial has: all cells of a row are over the same n trials."""
    names = set.intersection(*(set(trial) for trial in trials))
    return {name: _cell([trial[name] for trial in trials], draws) for name in sorted(names)}


def _cell(values: list[float], draws: Sequence[Draw]) -> Cell:
    """fsum: the result does not depend on the order of the trials in the store."""
    n = len(values)
    std = math.sqrt(squares(values) / (n - 1)) if n > 1 else None
    return Cell(math.fsum(values) / n, std, n, components(values, draws))
