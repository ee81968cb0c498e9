"""On what set-up the trials of a reproduced table ran, and what differs from the paper's."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.report.measured.groups import Group
from harness.report.measured.quantities import PAPER_COLUMNS
from harness.report.published.compared import ComparedNumber
from harness.report.published.matching import Wanted, yaml_text
from harness.report.published.published_values import published_values
from harness.report.sheets.notes import counted

_FACTS = ("device", "versions", "commit", "threads", "started")
SETUP_COLUMNS = tuple(dict.fromkeys([*PAPER_COLUMNS, *_FACTS]))
"""The columns of the store that a reproduction report needs"""
_NOT_COMPARED = {"setting", "encoder", "subset"}
"""Fields of a configuration that rows have anyway, or that are drawn"""


class Setups:
    """The set-ups of the trials of a store."""

    def __init__(self, trials: pa.Table) -> None:
        """`trials`: rows with SETUP_COLUMNS."""
        self._trials = trials.select(["key", *_FACTS])

    def notes(self, numbers: Iterable[ComparedNumber]) -> list[str]:
        """Sentences: devices, versions, protocol, and what differs from the paper in each row."""
        found: dict[Wanted, tuple[str, Group]] = {}
        for each in numbers:
            if each.found and each.wanted and each.cell:
                found.setdefault(each.wanted, (each.row.label, each.found.group))
        groups = [group for _, group in found.values()]
        return [*self._machines(groups), *self._rows(found)] if found else []

    def _machines(self, groups: Sequence[Group]) -> list[str]:
        """What the trials ran on; of several, each with the number of its trials."""
        rows = self._of({key for group in groups for key in group.keys})
        versions = [_versions(row["versions"]) for row in rows]
        protocols = [group.provenance["protocol"] for group in groups]
        precisions = [group.provenance["precision"] for group in groups]
        lines = {
            "Device": _listed(row["device"] for row in rows),
            "Versions": _listed(versions),
            "Commit": _listed((row["commit"] or "")[:12] for row in rows),
            "Protocol": _listed(protocols, "group"),
            "Precision": _listed(precisions, "group"),
        }
        return [f"{name}: {text}" for name, text in lines.items() if text]

    def _rows(self, found: dict[Wanted, tuple[str, Group]]) -> list[str]:
        """What differs from the paper's set-up, with the rows that differ in it."""
        alike: dict[str, dict[str, None]] = defaultdict(dict)  # a set in the order of the table
        for wanted, (label, group) in found.items():
            differs = "; ".join([*unlike_published(wanted, group), *self._steps(group)])
            alike[differs][f"{label} ({wanted.setting})"] = None
        if len(alike) == 1:
            return [f"Set-up of every row: {next(iter(alike)) or 'as published'}"]
        return [
            f"Set-up of {', '.join(labels)}: {text or 'as published'}"
            for text, labels in alike.items()
        ]

    def _steps(self, group: Group) -> list[str]:
        return _steps_text(trial.steps for trial in group.trials)

    def _of(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        wanted = pa.array(sorted(keys), pa.string())
        rows: list[dict[str, Any]] = self._trials.filter(
            pc.is_in(self._trials["key"], wanted)
        ).to_pylist()
        return sorted(rows, key=lambda row: row["key"])


def unlike_notes(numbers: Iterable[ComparedNumber], methods: Collection[str]) -> list[str]:
    """What differs from the paper's set-up in the trials of a table, with the rows that differ.

    methods: the names of the methods that are here; of others nothing is known.
    """
    found: dict[Wanted, tuple[str, Group]] = {}
    for each in numbers:
        if each.found and each.wanted and each.cell and each.wanted.method in methods:
            found.setdefault(each.wanted, (each.row.label, each.found.group))
    alike: dict[str, dict[str, None]] = defaultdict(dict)  # a set in the order of the table
    for wanted, (label, group) in found.items():
        if differs := unlike_published(wanted, group):
            text = "; ".join([*differs, *_steps_text(trial.steps for trial in group.trials)])
            alike[text][f"{label} ({wanted.setting})"] = None
    return [f"Unlike the paper, {', '.join(labels)}: {text}" for text, labels in alike.items()]


def unlike_published(wanted: Wanted, group: Group) -> list[str]:
    """What the trials have, and what the paper's values are in its place."""
    published = published_values(wanted)
    other = [f"encoder {group.encoder} (paper: {wanted.published_encoder})"]
    return [
        *(other if wanted.published_encoder else []),
        *(
            f"{name} {_text(value)} (paper: {_text(published[name])})"
            for name, value in sorted(group.configuration.items())
            if name in published and name not in _NOT_COMPARED and value != published[name]
        ),
    ]


def _steps_text(steps: Iterable[int | None]) -> list[str]:
    known = sorted({each for each in steps if each})
    return [f"{' or '.join(map(str, known))} steps"] if known else []


def _text(value: Any) -> str:
    return "none" if value is None else yaml_text(value)


def _versions(text: str | None) -> str:
    versions = json.loads(text or "{}") or {}
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _listed(values: Iterable[Any], noun: str = "trial") -> str:
    """The one value, or each of several with the number of its trials."""
    counts = Counter(str(value) for value in values if value not in (None, ""))
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({counted(n, noun)})" for value, n in sorted(counts.items()))
