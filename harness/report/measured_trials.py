"""Rows to trials: what a trial's own row and the evaluations of it measured, put together."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.evaluation.catalogue import Metric, SuiteCard, card, suite_of
from harness.evaluation.scores import Uncertainty
from harness.report.variance import Draw

IDENTITY_COLUMNS = (
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
"""Columns in which two trials must agree to be averaged.

They are all that decides a result but the seed; and but the subset (in `configuration`) where only a
share of the labels is used."""

Identity = tuple[Any, ...]
"""Values of IDENTITY_COLUMNS"""

_COLUMNS = (
    "key", "role", "status", "suite", "suite_card", "evaluates", "seed", "subset", "steps",
    "selected_by", "dev_before", "dev", "test", "uncertainty",
)  # fmt: skip


@dataclass(frozen=True)
class SuiteScores:
    """What one suite measured of a trial."""

    card: SuiteCard
    dev: Mapping[str, float]
    test: Mapping[str, float]
    uncertainty: Mapping[str, Uncertainty]


@dataclass(frozen=True)
class MeasuredTrial:
    """One training run, or one model that never trained, with all that was measured of it."""

    key: str
    draw: Draw
    trained: bool
    own: str | None
    """The suite in the trial's own row; None: the store has only evaluations of it"""
    selects: str | None
    """The dev metric by which it was selected, where its own row says so"""
    dev_before: float | None
    """The score of that metric before training"""
    suites: Mapping[str, SuiteScores]

    @cached_property
    def dev(self) -> dict[str, float]:
        """Every dev score; of a metric that was measured twice, the one in the trial's own row."""
        return {
            name: value
            for suite in self._own_last
            for name, value in self.suites[suite].dev.items()
        }

    @cached_property
    def uncertainty(self) -> dict[str, Uncertainty]:
        """The uncertainty of the dev scores."""
        return {
            name: value
            for suite in self._own_last
            for name, value in self.suites[suite].uncertainty.items()
        }

    def has(self, metric: Metric) -> bool:
        """Whether the metric was measured."""
        if metric.split == "dev":
            return metric.name in self.dev
        scores = self.suites.get(metric.suite)
        return scores is not None and metric.name in scores.test

    @property
    def _own_last(self) -> list[str]:
        return sorted(self.suites, key=lambda suite: (suite == self.own, suite))


def trials_of(table: pa.Table) -> dict[Identity, list[MeasuredTrial]]:
    """The final trials of a store and those that were evaluated, by identity, sorted by key.

    Scores of a partial evaluation count, since only its other tasks are missing. Those of a search
    trial do not count: its seed chose the configuration.
    """
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


def _identities(table: pa.Table) -> Iterator[Identity]:
    columns = {name: table[name].to_pylist() for name in IDENTITY_COLUMNS}
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


def _trials(draws: Mapping[Draw, list[dict[str, Any]]]) -> list[MeasuredTrial]:
    """The trials of one identity: one for each seed and subset."""
    rows = [row for found in draws.values() for row in found]
    name = suite_of(
        metric for row in rows if row["suite"] is None for metric in _numbers(row["test"])
    )
    trials = [_trial(draw, found, name) for draw, found in draws.items()]
    return sorted(trials, key=lambda trial: trial.key)


def _trial(draw: Draw, rows: Sequence[Mapping[str, Any]], unnamed_suite: str) -> MeasuredTrial:
    """Of a metric that was measured twice, the final row's value stands.

    After it come finished evaluations, then partial ones.
    """
    rows = sorted(rows, key=_precedence)
    suites: dict[str, SuiteScores] = {}
    for row in reversed(rows):
        name = row["suite"] or unnamed_suite
        suites[name] = _over(suites.get(name) or _nothing(name, row), row)
    first, final = rows[0], rows[0]["role"] == "final"
    return MeasuredTrial(
        key=first["key"] if final else first["evaluates"],
        draw=draw,
        # An own row without a number of steps is one of a method that trains.
        trained=any(row["steps"] != 0 if row["role"] == "final" else row["steps"] for row in rows),
        own=(first["suite"] or unnamed_suite) if final else None,
        selects=first["selected_by"] if final else None,
        dev_before=first["dev_before"] if final else None,
        suites=suites,
    )


def _precedence(row: Mapping[str, Any]) -> tuple[bool, bool, str]:
    return row["role"] != "final", row["status"] != "finished", row["key"]


def _nothing(suite: str, row: Mapping[str, Any]) -> SuiteScores:
    return SuiteScores(card(suite, row["suite_card"]), {}, {}, {})


def _over(below: SuiteScores, row: Mapping[str, Any]) -> SuiteScores:
    """The scores of a row; where it has none, those below."""
    spread = row["uncertainty"] or ()
    own = {name: Uncertainty(**values) for name, values in spread if values}
    return SuiteScores(
        below.card,
        {**below.dev, **_numbers(row["dev"])},
        {**below.test, **_numbers(row["test"])},
        {**below.uncertainty, **own},
    )


def _numbers(metrics: Iterable[tuple[str, float | None]] | None) -> dict[str, float]:
    return {name: value for name, value in metrics or () if value is not None}
