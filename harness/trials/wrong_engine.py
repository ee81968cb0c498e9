"""Records of trials that an engine has trained wrongly, and of what was made from these trials.

They count as failed, and say why. DeepSpeed with ZeRO 1 and 2 forgot all batches of a step but the
last one. The engine is not in a key, so such a record stands where a right one belongs; so does the
record of an evaluation of the trial, and of a trial that starts from its encoder.
"""

import json
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.revisions import parts_of

LAST_WRONG = 5
"""The last protocol under which DeepSpeed did so"""
Column = Callable[[str], pa.ChunkedArray]
"""Reads any column of SCHEMA for some rows; few stores have a record to ask about"""
OldTrial = tuple[str, str | None, str | None]
"""The key, why its own training was wrong, and the key of the trial whose encoder it starts from"""
Wrong = Mapping[str, str]
"""Key of a trial -> why it was trained wrongly"""


def without_wrong(table: pa.Table, column: Column, wrong: Callable[[], Wrong]) -> pa.Table:
    """The same rows, where those of wrong trials have the status `failed` and say why.

    column: that of these rows. wrong: gives the wrong trials of the whole store.
    """
    reasons = _own_reasons(column)
    if reasons is None:
        return table
    parents = list(map(_parent, column("evaluates").to_pylist(), column("encoder").to_pylist()))
    if any(parents):
        known = wrong()
        reasons = [
            own or (_inherited(parent) if parent and parent in known else None)
            for own, parent in zip(reasons, parents, strict=True)
        ]
    chosen = pa.array([reason is not None for reason in reasons])
    told = {"status": pa.array(["failed"] * len(reasons)), "reason": pa.array(reasons, pa.string())}
    for name in told.keys() & set(table.column_names):
        place = table.column_names.index(name)
        table = table.set_column(place, name, pc.if_else(chosen, told[name], table[name]))
    return table


def old_trials(column: Column) -> list[OldTrial]:
    """The trials of a file that are old enough to be wrong, or to start from a wrong one."""
    reasons = _own_reasons(column)
    if reasons is None:
        return []
    starts = map(_start, column("encoder").to_pylist())
    return list(zip(column("key").to_pylist(), reasons, starts, strict=True))


def wrong_trials(old: Sequence[OldTrial]) -> Wrong:
    """The trials that were trained wrongly, and those that start from the encoder of one of them.

    old: those of all files of a store.
    """
    wrong = {key: why for key, why, _ in old if why}
    starts = {key: start for key, _, start in old if start}
    while more := {key for key, start in starts.items() if start in wrong} - wrong.keys():
        wrong |= {key: _inherited(starts[key]) for key in more}
    return wrong


def _own_reasons(column: Column) -> list[str | None] | None:
    """Why each row's own training was wrong; None: no row is old enough to ask about."""
    protocols = column("protocol").to_pylist()
    if all((protocol or 0) > LAST_WRONG for protocol in protocols):
        return None
    if not pc.any(pc.match_substring(column("engine"), "deepspeed")).as_py():
        return [None] * len(protocols)
    facts = (column("engine").to_pylist(), column("configuration").to_pylist(), protocols)
    return list(map(_own_reason, *facts))


def _own_reason(engine: str | None, configuration: str | None, protocol: int | None) -> str | None:
    """Why a trial was trained wrongly; None for one that was not, or that cannot be read."""
    try:
        how, values = json.loads(engine or "{}"), json.loads(configuration or "{}")
        sharded = how.get("engine") == "deepspeed" and how.get("zero") in (1, 2)
        batches = values.get("accumulation", 1) if sharded else 1
    except (ValueError, AttributeError):  # `sound_rows` names the row
        return None
    if batches == 1 or (protocol or 0) > LAST_WRONG:
        return None
    return (
        f"it was trained wrongly: engine=deepspeed with zero={how['zero']} used only the last of "
        f"the {batches} batches of each step (accumulation) up to protocol {LAST_WRONG}; the same "
        f"command runs it again"
    )


def _parent(evaluated: str | None, encoder: str | None) -> str | None:
    """The key of the trial that a record was made from: one it measures, or one it starts from."""
    return evaluated or _start(encoder)


def _start(encoder: str | None) -> str | None:
    return parts_of(encoder or "")[1]


def _inherited(parent: str) -> str:
    short = parent[:10]
    return (
        f"it was made from trial {short}, which was trained wrongly (`harness show {short}` says "
        f"why); run that trial again first"
    )
