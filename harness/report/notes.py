"""The notes under a table: about records that are not in the table, or that are incomplete."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import counted, headline
from harness.report.cells import FOREIGN, LEAK, LEAKED
from harness.report.groups import Group
from harness.report.matching import command
from harness.report.measured_trials import MeasuredTrial
from harness.report.tables import Row
from harness.trials.record import trial_label
from harness.trials.record_files import Reading, is_text

SHOWN = 5
"""The number of records or rows that one note names"""
_NAMED = ("method", "setting", "encoder", "seed", "label_fraction", "subset")


def first_of(texts: Sequence[str]) -> list[str]:
    """The first SHOWN texts, and how many more there are."""
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return [*texts[:SHOWN], *more]


def leak_notes(rows: Iterable[Row]) -> list[str]:
    """A note about the marked scores: which rows, and how much of which tests."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        leaks = dict.fromkeys(str(leak) for cell in row.cells if cell.ours for leak in cell.leaks)
        if leaks:
            lines.setdefault(", ".join(leaks), []).append(row.address)
    if not lines:
        return []
    shown = [f"row {', '.join(places)}: {leaks}" for leaks, places in lines.items()]
    return [
        f"{LEAK} the training data have at least {100 * LEAKED:g} % of the test: pairs of which "
        f"both sentences stand in one training item, or single sentences where a test has no "
        f"pairs; "
        f"{'; '.join(first_of(shown))}"
    ]


def shortcomings(trials: pa.Table) -> list[str]:
    """Notes about failed and partial trials and evaluations, with the reasons of the first ones."""
    rows = _unfinished(trials)
    notes = []
    for status in ("failed", "partial"):
        for noun, evaluation in (("trial", False), ("evaluation", True)):
            lines = sorted(
                _line(row)
                for row in rows
                if row["status"] == status and (row["role"] == "evaluation") == evaluation
            )
            if lines:
                count = counted(len(lines), f"{status} {noun}")
                notes.append(f"{count}: {'; '.join(first_of(lines))}")
    return notes


def unreadable(reading: Reading) -> list[str]:
    """A note about the files of the store that could not be read, if there are any."""
    if not reading.unreadable:
        return []
    files = "; ".join(f"{name} ({reason})" for name, reason in reading.unreadable)
    return [f"{counted(len(reading.unreadable), 'file')} of the store could not be read: {files}"]


def foreign(groups: Iterable[Group]) -> list[str]:
    """A note about the groups of another protocol, if there are any."""
    protocols = {str(group.provenance["protocol"]) for group in groups if not group.current}
    numbers = ", ".join(sorted(protocols))
    return (
        [f"{FOREIGN} trained or measured by protocol {numbers}, not compared"] if protocols else []
    )


def made_on(trials: Iterable[MeasuredTrial]) -> str:
    """A sentence for captions: the hardware and the commits of the trials, as far as known."""
    machines = {(trial.device, trial.commit) for trial in trials}
    devices = sorted({device for device, _ in machines if device})
    commits = sorted({commit for _, commit in machines if commit})
    parts = [
        f"hardware: {', '.join(devices)}" if devices else "",
        f"commit: {', '.join(commits)}" if commits else "",
    ]
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def nothing_yet(trials: pa.Table, store: Path | str) -> str:
    """A note that names a command to begin with, for a store with nothing to show."""
    there = ""
    if trials.num_rows:
        there = f" (of {counted(trials.num_rows, 'trial')} none is final and finished)"
    return f"nothing to show in {store} yet{there}; run: {command(store, 'sweep', 'quickstart')}"


def _unfinished(trials: pa.Table) -> list[dict[str, Any]]:
    """The rows that failed or are partial.

    An evaluation that was made again with all of its data has another key; the old row is left out.
    """
    # Masks are several times as quick as filters by expression, which copy every column.
    finished_rows = is_text(trials["status"], "finished")
    columns = [*_NAMED, "role", "status", "suite", "reason", "evaluates"]
    rows = trials.select(columns).filter(pc.invert(finished_rows))
    evaluations = pc.and_(is_text(trials["role"], "evaluation"), finished_rows)
    done = trials.select(["evaluates", "suite"]).filter(evaluations)
    finished = set(zip(done["evaluates"].to_pylist(), done["suite"].to_pylist(), strict=True))
    return [
        row
        for row in rows.to_pylist()
        if row["role"] != "evaluation" or (row["evaluates"], row["suite"]) not in finished
    ]


def _line(row: Mapping[str, Any]) -> str:
    suite = f", {row['suite']}" if row["role"] == "evaluation" else ""
    named = trial_label(*(row[name] for name in _NAMED))
    return f"{named}{suite} ({headline(row['reason']) or 'no reason given'})"
