"""The trials and configurations of a sweep as its figures need them, by search."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.evaluation.catalogue import DISPLAY
from harness.report.figures.specification import file_name, texts_of
from harness.trials.record import FAMILY_COLUMNS, Record, record_of, searched_names
from harness.trials.store import Store

FIGURE_COLUMNS = (
    "key", "status", "role", "search", "method", "setting", "encoder", "seed", "label_fraction",
    "subset", "configuration", "selected_by", "dev_before", "dev", "history", "training_seconds",
    "device",
)  # fmt: skip
"""The columns of the store that the figures of a sweep need"""
FIGURED = 10
"""Searches that have figures, those with the most trials: a page of hundreds helps nobody"""
WITH_CURVES = 20
"""Trials of a search whose curves a report has; histories are most of a store"""


@dataclass(frozen=True)
class SweepSearch:
    """The trials of one search."""

    id: str
    """The value of the column `search`"""
    label: str
    """Method, setting and encoder, and the first characters of `id` where another has the same"""
    names: tuple[str, ...]
    """The hyperparameters in which its search trials differ, sorted"""
    trials: tuple[Record, ...]
    """Sorted by dev score, the best first; those without a score come last"""

    def values(self, trial: Record) -> dict[str, Any]:
        """The searched hyperparameters of a trial, and their values."""
        own = trial.configuration
        return {name: own[name] for name in self.names if name in own}

    def trial_label(self, trial: Record) -> str:
        """The name of a trial among those of the search."""
        words = self.words(self.values(trial))
        share = trial.label_fraction
        drawn = [f"subset {trial.subset}"] if share is not None and share < 1 else []
        return " ".join([*words, f"seed {trial.seed}", *drawn])

    def words(self, values: Mapping[str, Any]) -> list[str]:
        """Values of its hyperparameters as a legend shows them."""
        return [f"{name}={self._texts[name][str(value)]}" for name, value in values.items()]

    @cached_property
    def _texts(self) -> dict[str, dict[str, str]]:
        own = [self.values(trial) for trial in self.trials]
        return {name: texts_of([each[name] for each in own if name in each]) for name in self.names}

    @property
    def file_name(self) -> str:
        """The label as a part of a file's name."""
        return file_name(self.label)

    @cached_property
    def metric(self) -> str:
        """The dev metric that selects, as papers print it."""
        metric = next((trial.selected_by for trial in self.trials if trial.selected_by), "dev")
        return DISPLAY.get(metric, metric)

    @property
    def searched(self) -> list[Record]:
        """Its search trials, or the final ones where nothing was searched."""
        searching = [trial for trial in self.trials if trial.role == "search"]
        return searching or list(self.trials)


def sweep_searches(table: pa.Table) -> list[SweepSearch]:
    """The searches of a store in the order of their labels.

    `table` has FIGURE_COLUMNS. Evaluations and failed trials are left out.
    """
    trials = [
        record
        for record in map(record_of, table.to_pylist())
        if record.search and record.role != "evaluation" and record.status != "failed"
    ]
    named = searched_names(table.select([*FAMILY_COLUMNS, "configuration"]))
    families: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in trials:
        families[record.method, record.setting, record.encoder, record.search].append(record)
    short = [" ".join([*family[:2], Path(family[2]).name]) for family in families]
    # Encoders that end in the same word have all of their names.
    labels = [
        " ".join(family[:3]) if short.count(label) > 1 else label
        for family, label in zip(families, short, strict=True)
    ]
    searches = []
    for (family, records), label in zip(families.items(), labels, strict=True):
        names = tuple(sorted(named.get(family, [])))
        records.sort(key=lambda trial: (-_dev(trial), trial.key))
        shared = f" {family[3][:6]}" if labels.count(label) > 1 else ""
        searches.append(SweepSearch(family[3], f"{label}{shared}", names, tuple(records)))
    return sorted(searches, key=lambda search: search.label)


def _dev(trial: Record) -> float:
    """The dev score; -inf where there is none, and where it is no number."""
    score = trial.dev_score
    return -math.inf if score is None or math.isnan(score) else score


def figured(searches: Sequence[SweepSearch]) -> tuple[list[SweepSearch], list[str]]:
    """The searches with the most trials, in their order; and a note about the others."""
    largest = sorted(searches, key=lambda search: -len(search.trials))[:FIGURED]
    kept = [search for search in searches if search in largest]
    if len(kept) == len(searches):
        return kept, []
    note = (
        f"Figures are of the {len(kept)} searches with the most trials; "
        f"`harness figure --sweep {searches[0].id[:10]}` draws those of any search."
    )
    return kept, [note]


def with_histories(searches: Sequence[SweepSearch], store: Store) -> list[SweepSearch]:
    """The searches, whose best trials have the histories that the store keeps of them."""
    keys = [trial.key for search in searches for trial in search.trials[:WITH_CURVES]]
    rows = store.read(("history",), {"key": keys}).table.to_pylist() if keys else []
    histories = {row["key"]: row["history"] or [] for row in rows}

    def filled(trial: Record) -> Record:
        return replace(trial, history=histories.get(trial.key, []))

    return [replace(search, trials=tuple(map(filled, search.trials))) for search in searches]


def configurations(search: SweepSearch) -> list[dict[str, Any]]:
    """The configurations of a search, the best mean dev score first.

    Of each: its `values`, hyperparameter -> value; `n`, its search trials with a dev score (seeds x
    label subsets); `dev`, their mean; `std`, their sample standard deviation, None for one trial;
    `seconds`, their mean training seconds; `pruned`, whether the search has ended one early.
    """
    trials: dict[str, list[Record]] = defaultdict(list)
    for trial in search.searched:
        if math.isfinite(_dev(trial)):
            trials[json.dumps(search.values(trial), sort_keys=True)].append(trial)
    rows = []
    for values, own in trials.items():
        scores = [_dev(trial) for trial in own]
        seconds = [trial.training_seconds for trial in own if trial.training_seconds is not None]
        row: dict[str, Any] = {
            "values": search.values(own[0]),
            "n": len(scores),
            "dev": statistics.fmean(scores),
            "std": statistics.stdev(scores) if len(scores) > 1 else None,
            "seconds": statistics.fmean(seconds) if seconds else None,
            "pruned": any(trial.status == "pruned" for trial in own),
        }
        rows.append((row, values))
    return [row for row, _ in sorted(rows, key=lambda pair: (-pair[0]["dev"], pair[1]))]
