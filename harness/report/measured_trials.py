"""Joins the row of a trial and the rows of its evaluations into one measured trial."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from itertools import pairwise
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.evaluation.catalogue import Metric, SuiteCard, card, suite_of
from harness.evaluation.scores import Uncertainty
from harness.trials.record_files import is_text

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

They are everything that decides a result, without the seed. The label subset, which is a part of
`configuration`, is left out where only a share of the labels is used.
"""

Identity = tuple[Any, ...]
"""The values of IDENTITY_COLUMNS, in the same order"""
SuiteOfData = tuple[str, str]
"""The name of a suite, and the digest of a user's data: with others it is another suite"""
Draw = tuple[int, int]
"""(label subset, seed) of a trial"""

_COLUMNS = (
    "key", "role", "status", "suite", "suite_card", "evaluates", "seed", "subset", "steps",
    "selected_by", "dev_before", "dev", "test", "contamination", "uncertainty", "device",
    "commit", "started", "corpora",
)  # fmt: skip
TABLE_COLUMNS = (*IDENTITY_COLUMNS, *_COLUMNS, "label_fraction", "search", "searched", "reason")
"""The columns of the store that a table needs"""


@dataclass(frozen=True)
class SuiteScores:
    """The scores of a trial under one suite."""

    card: SuiteCard
    dev: Mapping[str, float]
    test: Mapping[str, float]
    contamination: Mapping[str, float] = field(default_factory=dict)
    """The overlap of a record"""
    spreads: tuple[Callable[[], Mapping[str, Uncertainty]], ...] = ()
    """The uncertainty in each of the rows, where a later row goes before an earlier one"""

    @cached_property
    def uncertainty(self) -> dict[str, Uncertainty]:
        """Dev or test metric -> its uncertainty; only a trial that stands alone is asked for it."""
        return {name: value for spread in self.spreads for name, value in spread().items()}


@dataclass(frozen=True)
class MeasuredTrial:
    """A trial, or a model that never trained, with the scores of all suites."""

    key: str
    draw: Draw
    trained: bool
    """Whether anything was trained, so that the seed matters"""
    own: SuiteOfData | None
    """The suite in the trial's own row; None: the store has only evaluations of the trial"""
    selects: str | None
    """The dev metric by which the trial was selected, where its own row names it"""
    dev_before: float | None
    """The score of that metric before training"""
    suites: Mapping[SuiteOfData, SuiteScores]
    device: str | None = None
    """The hardware of its own row, or else of an evaluation of it"""
    commit: str | None = None
    """The commit of the harness that measured it"""
    steps: int | None = None
    """The optimiser steps of its training"""
    corpora: str | None = None
    """JSON of its corpora and the numbers of their items"""

    def dev(self, suite: SuiteOfData | None) -> dict[str, SuiteScores]:
        """Dev metric -> the scores in which it is.

        Of a metric that several suites have: those of `suite`, or else those in the own row.
        """
        names = sorted(self.suites, key=lambda each: (each == suite, each == self.own, each))
        return {metric: self.suites[name] for name in names for metric in self.suites[name].dev}

    def has(self, metric: Metric) -> bool:
        """Whether the metric was measured."""
        if metric.split == "dev":
            return metric.name in self.dev(None)
        scores = self.suites.get((metric.suite, metric.data))
        return scores is not None and metric.name in scores.test


def trials_of(table: pa.Table) -> dict[Identity, list[MeasuredTrial]]:
    """The final trials of a store and the evaluated models, by identity, sorted by key.

    The scores of a partial evaluation count, since only its other tasks are missing. Those of a
    search trial do not count, because its configuration was chosen on its seed.
    """
    search, failed = is_text(table["role"], "search"), is_text(table["status"], "failed")
    counts = pc.invert(pc.or_(search, failed))
    of_search = pc.is_in(table["evaluates"], table["key"].filter(search))
    shown = table.filter(pc.and_(counts, pc.invert(of_search)))
    rows: dict[Identity, dict[Draw, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    # Several times as quick as `Table.to_pylist` with maps.
    columns = [_values(name, shown[name].combine_chunks()) for name in _COLUMNS]
    for identity, *values in zip(_identities(shown), *columns, strict=True):
        row = dict(zip(_COLUMNS, values, strict=True))
        # A method without a choice of labels has no subset.
        rows[identity][row["subset"] or 0, row["seed"]].append(row)
    return {identity: _trials(draws) for identity, draws in rows.items()}


def rows_of(table: pa.Table, keys: Collection[str] | None) -> pa.Table:
    """The rows of these trials and of their evaluations; None: all."""
    if keys is None:
        return table
    wanted = pa.array(sorted(keys), pa.string())
    own, of_them = pc.is_in(table["key"], wanted), pc.is_in(table["evaluates"], wanted)
    return table.filter(pc.or_(own, of_them))


def _values(name: str, column: pa.Array) -> list[Any]:
    """The values of a column; a map is a dictionary without the values that are null."""
    if name == "uncertainty":  # it is unpacked when it is asked for
        return [partial(_uncertainty, column, row) for row in range(len(column))]
    if not pa.types.is_map(column.type):
        return list(column.to_pylist())
    names, ends = column.keys.dictionary_encode(), column.offsets.to_pylist()
    distinct = names.dictionary.to_pylist()
    keys = [distinct[index] for index in names.indices.to_pylist()]
    values = column.items.to_pylist()
    return [
        {keys[at]: values[at] for at in range(start, end) if values[at] is not None}
        for start, end in pairwise(ends)
    ]


def _uncertainty(column: pa.MapArray, row: int) -> dict[str, Uncertainty]:
    items = column[row].as_py() or ()
    return {name: Uncertainty(**values) for name, values in items if values}


def _identities(table: pa.Table) -> Iterator[Identity]:
    columns = {name: table[name].to_pylist() for name in IDENTITY_COLUMNS}
    configurations, fractions = columns["configuration"], table["label_fraction"].to_pylist()
    for row, (text, fraction) in enumerate(zip(configurations, fractions, strict=True)):
        if fraction not in (None, 1):
            values = json.loads(text)
            values.pop("subset", None)
            configurations[row] = json.dumps(values, sort_keys=True)
    return zip(*columns.values(), strict=True)


def _trials(draws: Mapping[Draw, list[dict[str, Any]]]) -> list[MeasuredTrial]:
    """The trials of one identity, one for each seed and label subset."""
    rows = [row for own in draws.values() for row in own]
    name = suite_of(metric for row in rows if row["suite"] is None for metric in row["test"])
    trials = [_trial(draw, own, name) for draw, own in draws.items()]
    return sorted(trials, key=lambda trial: trial.key)


def _trial(draw: Draw, rows: Sequence[Mapping[str, Any]], unnamed_suite: str) -> MeasuredTrial:
    """The trial that several rows measured.

    Of a metric that was measured twice, the value of the final row is taken, or else that of the
    newest finished evaluation, or else that of a partial one: the weights may have changed.
    """
    rows = sorted(rows, key=_precedence)
    by_suite: dict[SuiteOfData, list[Mapping[str, Any]]] = defaultdict(list)
    for row in reversed(rows):
        by_suite[suite_of_data(row["suite"] or unnamed_suite, row["suite_card"])].append(row)
    suites = {suite: _scores(suite[0], own) for suite, own in by_suite.items()}
    first, final = rows[0], rows[0]["role"] == "final"
    return MeasuredTrial(
        key=first["key"] if final else first["evaluates"],
        draw=draw,
        # A final row without a number of steps belongs to a method that trains.
        trained=any(row["steps"] != 0 if row["role"] == "final" else row["steps"] for row in rows),
        own=suite_of_data(first["suite"] or unnamed_suite, first["suite_card"]) if final else None,
        selects=first["selected_by"] if final else None,
        dev_before=first["dev_before"] if final else None,
        suites=suites,
        device=first["device"],
        commit=first["commit"],
        steps=first["steps"],
        corpora=first["corpora"],
    )


def _precedence(row: Mapping[str, Any]) -> tuple[bool, bool, float, str]:
    newest = -row["started"].timestamp() if row["started"] else 0.0
    return row["role"] != "final", row["status"] != "finished", newest, row["key"]


def suite_of_data(name: str, dumped: str | None) -> SuiteOfData:
    """The suite of a record with its data. dumped: its card as JSON."""
    return name, card(name, dumped).data


def _scores(suite: str, rows: Sequence[Mapping[str, Any]]) -> SuiteScores:
    """The scores in the rows of a suite, where a later row goes before an earlier one."""
    suite_card = card(suite, rows[0]["suite_card"])
    dev, test, contamination = (
        reduce(or_, (row[name] for row in rows)) for name in ("dev", "test", "contamination")
    )
    spreads = tuple(row["uncertainty"] for row in rows)
    return SuiteScores(suite_card, dev, test | suite_card.averaged(test), contamination, spreads)
