"""What a table says under itself about records that are not in it, or not whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.trials.store import DEFAULT_STORE, Reading, label

SHOWN = 5


def shortcomings(trials: pa.Table) -> list[str]:
    """How many trials and evaluations failed, how many have scores for some of their tasks only, and why the first
    ones."""
    rows = _unfinished(trials)
    notes = []
    for status in ("failed", "partial"):
        for noun, evaluation in (("trial", False), ("evaluation", True)):
            told = sorted(
                _told(row)
                for row in rows
                if row["status"] == status and (row["role"] == "evaluation") == evaluation
            )
            if told:
                more = [f"and {len(told) - SHOWN} more"] if told[SHOWN:] else []
                notes.append(
                    f"{counted(len(told), f'{status} {noun}')}: {'; '.join([*told[:SHOWN], *more])}"
                )
    return notes


def unreadable(reading: Reading) -> list[str]:
    """Which files of the store are not in the table, and why."""
    if not reading.unreadable:
        return []
    files = "; ".join(f"{name} ({reason})" for name, reason in reading.unreadable)
    return [f"{counted(len(reading.unreadable), 'file')} of the store could not be read: {files}"]


def nothing_yet(trials: pa.Table, store: Path) -> str:
    """What to run when there is nothing to show."""
    option = "" if store == DEFAULT_STORE else f" --store {store}"
    there = (
        f" (of {counted(trials.num_rows, 'trial')} none is final and finished)"
        if trials.num_rows
        else ""
    )
    return f"nothing to show in {store} yet{there}; run: harness sweep search_spaces/quickstart.yaml{option}"


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _unfinished(trials: pa.Table) -> list[dict[str, Any]]:
    """But an evaluation that was made again with all of its data, which gave it another key."""
    columns = (
        "role",
        "status",
        "suite",
        "method",
        "setting",
        "encoder",
        "seed",
        "label_fraction",
        "subset",
        "reason",
    )
    rows = (
        trials.filter(pc.field("status").isin(["failed", "partial"]))
        .select((*columns, "evaluates"))
        .to_pylist()
    )
    done = trials.filter((pc.field("role") == "evaluation") & (pc.field("status") == "finished"))
    finished = set(zip(done["evaluates"].to_pylist(), done["suite"].to_pylist(), strict=True))
    return [
        row
        for row in rows
        if row["role"] != "evaluation" or (row["evaluates"], row["suite"]) not in finished
    ]


def _told(row: Mapping[str, Any]) -> str:
    suite = f", {row['suite']}" if row["role"] == "evaluation" else ""
    return f"{label(row)}{suite} ({' '.join((row['reason'] or 'no reason given').split())})"
