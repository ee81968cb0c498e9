"""A record: what the store keeps of a trial, or of an evaluation of one."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from itertools import compress
from operator import ne
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import from_json

from harness.evaluation.scores import Uncertainty

if TYPE_CHECKING:
    import pyarrow as pa  # a wrong name is answered without it

SCHEMA_VERSION = 7
"""Version of the columns; a store with newer ones gets an error message of its own"""
Status = Literal["finished", "partial", "pruned", "failed"]
RecordRole = Literal["search", "final", "evaluation"]

JSON_COLUMNS = ("configuration", "engine", "versions", "revisions", "suite_card", "corpora")
RANK = {"failed": 0, "pruned": 1, "partial": 2, "finished": 3}
"""Status -> rank; of two rows of one trial, the one with the higher rank counts"""
_MAPS = ("dev", "test", "details", "uncertainty")
"""Columns with maps that are results"""
_DUMPED = ("configuration", "engine", "versions", "revisions", "corpora")
_RESULT = ("dev_before", *_MAPS, "history", "steps", "precision")
"""The fields that are equal whenever and wherever a trial runs; times and hosts are not"""


@dataclass(frozen=True)
class Record:
    """One row of the store. The fields are the columns of its Parquet files."""

    key: str
    """Digest of everything that decides the result"""
    status: Status
    """`partial`: an evaluation in which some tasks have no score; `pruned`: a search trial that its
    search ended before its last step, with the best dev score until then, if it had begun"""
    role: RecordRole
    """`search`: scored on dev only; `final`: on dev and test; `evaluation`: by `harness eval`"""
    method: str
    setting: str
    encoder: str
    seed: int
    configuration: Mapping[str, Any]
    """Hyperparameter -> its value, all of them, and the label subset where there is one"""
    reason: str | None = None
    """Reason of the failure, or names of the missing tasks"""
    search: str = ""
    """Identifier of the search that asked for the trial"""
    suite: str | None = None
    """The suite that gave the scores"""
    suite_card: str | None = None
    """JSON of the card of a user's suite; None for a shipped suite"""
    evaluates: str | None = None
    """Key of the trial that an evaluation measured"""
    selected_by: str | None = None
    """The dev metric that selects"""
    dev_before: float | None = None
    """The score of that metric before training; it is recorded, and it never selects"""
    dev: Mapping[str, float] = field(default_factory=dict)
    """Dev metric -> score"""
    test: Mapping[str, float] = field(default_factory=dict)
    """Test metric -> score: Spearman x100 of STS, accuracy x100 of transfer tasks, ..."""
    details: Mapping[str, float] = field(default_factory=dict)
    """Further figures, named `task/figure` or `task/subset/figure`"""
    uncertainty: Mapping[str, Uncertainty] = field(default_factory=dict)
    """Dev or test metric -> uncertainty of its score"""
    contamination: Mapping[str, float] = field(default_factory=dict)
    """Overlap of the training corpora with the tests, named `task/figure`; the figures are those of
    harness.evaluation.overlap.OVERLAP_FIGURES"""
    history: list[Mapping[str, Any]] = field(default_factory=list)
    """Quantities along the training, in the order of the steps: step, stage, metric, value"""
    steps: int | None = None
    """Optimiser steps of all stages"""
    wall_seconds: float | None = None
    """Duration of the whole trial"""
    training_seconds: float | None = None
    """Duration of the training steps alone"""
    evaluation_seconds: float | None = None
    """Duration of embedding sentences for dev and test scores"""
    sentences_per_second: float | None = None
    """Sentences trained on per training second; in an evaluation, sentences embedded per second"""
    peak_host_memory_mib: float | None = None
    """Largest resident memory of the process"""
    peak_gpu_memory_mib: float | None = None
    """Largest memory that torch allocated; None without a GPU"""
    parameters_total: int | None = None
    parameters_trainable: int | None = None
    parameters_added: int | None = None
    """Parameters outside the pretrained models"""
    precision: str | None = None
    """`bf16`, `fp16` or `fp32`, as the trial ran"""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """Field about the processes that trained it -> its value; none of them decides the result"""
    threads: int | None = None
    host: str | None = None
    device: str | None = None
    started: datetime | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package -> version"""
    commit: str | None = None
    plugin: str | None = None
    """Path of the plugin where the sweep began; None for a method that has a name"""
    source_digest: str | None = None
    data_digest: str | None = None
    model_digest: str | None = None
    weights_digest: str | None = None
    """SHA-256 of the file of the trained weights; None where none was written"""
    revisions: Mapping[str, str] = field(default_factory=dict)
    """`models/ORGANISATION/NAME` or `datasets/...` of the Hub -> the commit that was read; folders
    and mirrors have none"""
    protocol: int | None = None
    searched: str | None = None
    """The hyperparameters for which its search has values, with spaces between them"""
    corpora: Mapping[str, int] = field(default_factory=dict)
    """Corpus of the training -> the number of its items; a final trial's"""

    @property
    def dev_score(self) -> float | None:
        """The score of the metric that selects; None where there is none."""
        return None if self.selected_by is None else self.dev.get(self.selected_by)

    @property
    def finished(self) -> bool:
        """Whether nothing of the trial or evaluation is missing."""
        return self.status == "finished"

    def counts_for(self, search: str) -> bool:
        """Whether a search need not run the trial: it has finished, or this search pruned it."""
        return self.finished or (self.status == "pruned" and self.search == search)

    @property
    def label_fraction(self) -> float | None:
        """The share of the labels that was used; None where the method has no such choice."""
        return self.configuration.get("label_fraction")

    @property
    def subset(self) -> int | None:
        """The number of the label subset; None where the method has no such choice."""
        return self.configuration.get("subset")

    @property
    def label(self) -> str:
        """The trial as people read it: method, setting, encoder, seed, and the label subset."""
        named = (self.method, self.setting, self.encoder, self.seed)
        return trial_label(*named, self.label_fraction, self.subset)

    def row(self) -> dict[str, Any]:
        """The record as a row of harness.trials.schema."""
        row = vars(self) | {"label_fraction": self.label_fraction, "subset": self.subset}
        row["schema_version"] = SCHEMA_VERSION
        row |= {name: json.dumps(row[name], sort_keys=True) for name in _DUMPED}
        row["uncertainty"] = {name: asdict(found) for name, found in self.uncertainty.items()}
        return row | {name: list(row[name].items()) for name in (*_MAPS, "contamination")}

    def difference(self, other: "Record") -> str | None:
        """The first field in which two results of one trial differ; None when they are equal."""
        return next((name for name in _RESULT if self._text(name) != other._text(name)), None)

    def _text(self, name: str) -> str:
        """The value of a field as text, because a NaN is not equal to itself."""
        return json.dumps(getattr(self, name), sort_keys=True, default=vars)


def record_of(row: Mapping[str, Any]) -> Record:
    """The record of a row of the store; a field whose column is not there has its default."""
    values = {each.name: row[each.name] for each in fields(Record) if each.name in row}
    values |= {name: json.loads(row[name]) if row.get(name) else {} for name in _DUMPED}
    values |= {name: dict(row.get(name) or ()) for name in (*_MAPS, "contamination")}
    spread = values["uncertainty"].items()
    values["uncertainty"] = {name: Uncertainty(**found) for name, found in spread if found}
    values["search"], values["history"] = row.get("search") or "", row.get("history") or []
    return Record(**values)


def four_digits(value: object) -> str:
    """The value of a hyperparameter as people read it; of a float, four significant digits.

    What a program reads, and the command that runs a trial again, have all digits.
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def trial_label(
    method: str,
    setting: str,
    encoder: str,
    seed: int,
    label_fraction: float | None = None,
    subset: int | None = None,
    searched: Mapping[str, Any] | None = None,
) -> str:
    """A trial as people read it: method, setting, encoder, searched values, seed.

    The subset is named where only a share of the labels was used. `searched`: the values of the
    hyperparameters in which the trials of a search differ.
    """
    values = "".join(f" {name}={four_digits(value)}" for name, value in (searched or {}).items())
    share = 1 if label_fraction is None else label_fraction
    drawn = f" subset {subset} of {100 * share:g} %" if share < 1 else ""
    return f"{method} {setting} {encoder}{values} seed {seed}{drawn}"


FAMILY_COLUMNS = ("method", "setting", "encoder", "search")
"""Trials that agree in these columns are told apart by their configurations"""
Family = tuple[str | None, ...]
"""The values of FAMILY_COLUMNS, in the same order"""


def searched_names(trials: "pa.Table") -> dict[Family, list[str]]:
    """Family of trials -> the hyperparameters in which they differ, sorted.

    `trials`: FAMILY_COLUMNS and `configuration`. The label subset is none of them, because it
    numbers a repetition as a seed does.
    """
    # `Table.group_by` would import pyarrow's data sets and pandas, which takes half a second.
    lists: dict[Family, list[str | None]] = defaultdict(list)
    families = zip(*(trials[name].to_pylist() for name in FAMILY_COLUMNS), strict=True)
    for family, text in zip(families, trials["configuration"].to_pylist(), strict=True):
        lists[family].append(text)
    return {family: _varied(found) for family, found in lists.items()}


def _varied(configurations: list[str | None]) -> list[str]:
    """The hyperparameters in which configurations differ, without the label subset."""
    first, *others = dict.fromkeys(configurations)
    names: set[str] = set()
    values = from_json(first or "{}", cache_strings="keys")
    for other in others:
        names.update(_differing(from_json(other or "{}", cache_strings="keys"), values))
    return sorted(names - {"subset"})


def _differing(one: dict[str, Any], other: dict[str, Any]) -> Iterable[str]:
    """The names whose values differ."""
    if list(one) == list(other):  # nearly always; a store may have a hundred thousand trials
        return compress(one, map(ne, one.values(), other.values()))
    return [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]


def family_of(row: Mapping[str, Any]) -> Family:
    """The family of a trial."""
    return tuple(row[name] for name in FAMILY_COLUMNS)


def searched_values(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values that these hyperparameters have in a trial."""
    values = from_json(row["configuration"] or "{}")
    return {name: values[name] for name in names if name in values}
