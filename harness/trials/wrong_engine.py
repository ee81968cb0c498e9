"""Records of trials that an engine has trained wrongly: they count as failed, and run again."""

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

LAST_WRONG = 5
"""The last protocol under which DeepSpeed forgot all batches of a step but the last one.

It did so with ZeRO 1 and 2. The engine is not in a key, so such a record stands where a right one
belongs."""


def without_wrong(table: pa.Table, column: Callable[[str], pa.ChunkedArray]) -> pa.Table:
    """The same rows, where those that were trained wrongly have the status `failed` and say why.

    `column`: reads any column of SCHEMA for these rows; few stores have a record to ask about.
    """
    asked = pc.match_substring(column("engine"), "deepspeed").fill_null(fill_value=False)
    if not pc.any(asked).as_py():
        return table
    facts = zip(
        *(column(name).to_pylist() for name in ("engine", "configuration", "protocol")),
        strict=True,
    )
    reasons = [_why(*each) for each in facts]
    wrong = pa.array([reason is not None for reason in reasons])
    told = {"status": pa.array(["failed"] * len(reasons)), "reason": pa.array(reasons, pa.string())}
    for name in told.keys() & set(table.column_names):
        place = table.column_names.index(name)
        table = table.set_column(place, name, pc.if_else(wrong, told[name], table[name]))
    return table


def _why(engine: str | None, configuration: str | None, protocol: int | None) -> str | None:
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
