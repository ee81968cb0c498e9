"""Rows to trials: what a trial's own row and the evaluations of it measured, put together."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.evaluation.catalogue import STSB_DEV, Metric, unnamed
from harness.report.variance import Draw

BEFORE = "-start"  # suffix of a dev metric taken before training

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

Identity = tuple[Any, ...]
"""Values of IDENTITY"""

_COLUMNS = (
    "key",
    "role",
    "status",
    "suite",
    "evaluates",
    "seed",
    "subset",
    "steps",
    "dev",
    "test",
    "uncertainty",
)


@dataclass(frozen=True)
class Interval:
    """Uncertainty of one model's score: bootstrap over the items of the test, not over seeds."""

    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """What one suite measured of a trial."""

    dev: Mapping[str, float]
    test: Mapping[str, float]
    intervals: Mapping[str, Interval]


@dataclass(frozen=True)
class Trial:
    """One training run, or one model that never trained, with all that was measured of it."""

    key: str
    draw: Draw
    trained: bool
    own: str | None
    """The suite that it was scored with by itself; None: the store has evaluations of it only"""
    selects: str | None
    """The dev metric by which it was selected, where its own row says so"""
    suites: Mapping[str, Scores]

    @cached_property
    def dev(self) -> dict[str, float]:
        """Every dev score; of a metric measured twice the trial's own."""
        return {
            name: value
            for suite in self._own_last
            for name, value in self.suites[suite].dev.items()
        }

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Of the dev scores."""
        return {
            name: value
            for suite in self._own_last
            for name, value in self.suites[suite].intervals.items()
        }

    def has(self, metric: Metric) -> bool:
        """Whether it was measured."""
        scores = self.suites.get(metric.suite)
        return metric.name in (self.dev if metric.split == "dev" else scores.test if scores else ())

    @property
    def _own_last(self) -> list[str]:
        return sorted(self.suites, key=lambda suite: (suite == self.own, suite))


def trials_of(table: pa.Table) -> dict[Identity, list[Trial]]:
    """The final trials of a store and those that were evaluated, by identity, sorted by key. Scores of a partial
    evaluation count: its other tasks are missing. Those of a search trial do not: its seed chose the configuration."""
    searched = table.filter(pc.field("role") == "search")["key"]
    shown = table.filter(
        pc.field("role").isin(["final", "evaluation"])
        & pc.field("status").isin(["finished", "partial"])
        & ~pc.field("evaluates").isin(searched.combine_chunks())
    )
    rows: dict[Identity, dict[Draw, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for identity, row in zip(_identities(shown), shown.select(_COLUMNS).to_pylist(), strict=True):
        rows[identity][row["subset"] or 0, row["seed"]].append(row)
    return {identity: _trials(draws) for identity, draws in rows.items()}


def dev_metric(names: Iterable[str]) -> str | None:
    """The metric that selects: STS-B dev wherever it was measured."""
    found = sorted(name for name in names if not name.endswith(BEFORE))
    return STSB_DEV if STSB_DEV in found else next(iter(found), None)


def _identities(table: pa.Table) -> Iterator[Identity]:
    columns = {name: table[name].to_pylist() for name in IDENTITY}
    columns["configuration"] = [
        text if fraction is None or fraction == 1 else _without_subset(text)
        for text, fraction in zip(
            columns["configuration"], table["label_fraction"].to_pylist(), strict=True
        )
    ]
    return zip(*columns.values(), strict=True)


def _without_subset(configuration: str) -> str:
    values = json.loads(configuration)
    return json.dumps(
        {name: value for name, value in values.items() if name != "subset"}, sort_keys=True
    )


def _trials(draws: Mapping[Draw, list[dict[str, Any]]]) -> list[Trial]:
    """Of one identity: one trial for each seed and subset."""
    rows = [row for found in draws.values() for row in found]
    name = unnamed(
        metric for row in rows if row["suite"] is None for metric in _numbers(row["test"])
    )
    return sorted(
        (_trial(draw, found, name) for draw, found in draws.items()), key=lambda trial: trial.key
    )


def _trial(draw: Draw, rows: Sequence[Mapping[str, Any]], unnamed_suite: str) -> Trial:
    """A metric measured twice is the final row's; then a finished evaluation's rather than a partial one's."""
    rows = sorted(
        rows, key=lambda row: (row["role"] != "final", row["status"] != "finished", row["key"])
    )
    suites: dict[str, Scores] = {}
    for row in reversed(rows):
        name = row["suite"] or unnamed_suite
        suites[name] = _over(suites.get(name), row)
    first, final = rows[0], rows[0]["role"] == "final"
    return Trial(
        key=first["key"] if final else first["evaluates"],
        draw=draw,
        trained=any(row["steps"] != 0 if row["role"] == "final" else row["steps"] for row in rows),
        own=(first["suite"] or unnamed_suite) if final else None,
        selects=dev_metric(_numbers(first["dev"])) if final else None,
        suites=suites,
    )


def _over(below: Scores | None, row: Mapping[str, Any]) -> Scores:
    below = below or Scores({}, {}, {})
    intervals = {name: Interval(**values) for name, values in row["uncertainty"] or () if values}
    return Scores(
        {**below.dev, **_numbers(row["dev"])},
        {**below.test, **_numbers(row["test"])},
        {**below.intervals, **intervals},
    )


def _numbers(metrics: Iterable[tuple[str, float | None]] | None) -> dict[str, float]:
    return {name: value for name, value in metrics or () if value is not None}
