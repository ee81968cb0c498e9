"""Faults of records: what a value of a row may not be, because no trial writes it.

A store may come from anybody. Readers, and the names of files that are made of keys, rely on what
is checked here. Only the columns that were read are checked.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from harness.data.revisions import COMMIT, REPOSITORY, parts_of
from harness.evaluation.catalogue import parsed_card
from harness.inputs import BEYOND
from harness.trials.record import JSON_COLUMNS, RANK, RecordRole
from harness.trials.schema import SCHEMA

KEY = "^[0-9a-f]{32}$"
"""The pattern of a key"""
LONGEST_TEXT, LONGEST_JSON, DEEPEST_JSON = 100_000, 10_000_000, 20
"""Bytes of a text, bytes of a JSON text, and how deep its values may be nested"""
LARGEST_SCORE = 1e15
"""No score, duration or size is beyond it, and sums of squares still have a value"""
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds from 1970 to the first and the last moment that Python has a date for"""
_PRESENT = ("status", "role", "method", "setting", "encoder", "seed", "configuration")
_FINITE_MAPS, _OTHER_MAPS = ("dev", "test", "contamination"), ("details", "uncertainty")


def faults_of(table: pa.Table) -> pa.Array:
    """The first fault of each row of a table with columns of SCHEMA, or null.

    The status, the role and so on of a row are checked as far as the table has these columns.
    """
    faults = pa.nulls(table.num_rows, pa.string())
    for name in table.column_names:
        for sound, fault in _checks(name, table[name].combine_chunks()):
            # A null is sound, unless a check says that it is missing.
            wrong = pc.and_(pc.invert(pc.fill_null(sound, True)), pc.is_null(faults))
            if pc.any(wrong).as_py():
                faults = pc.if_else(wrong, pa.scalar(f"its {name} {fault}"), faults)
    return faults


def _checks(name: str, column: pa.Array) -> Iterator[tuple[pa.Array, str]]:
    """The checks of a column: whether each row passes, and the fault of those that do not."""
    kind = SCHEMA.field(name).type
    if name in _PRESENT:
        yield pc.is_valid(column), "is missing"
    if name in ("key", "evaluates"):
        yield pc.match_substring_regex(column, KEY), "is not 32 hexadecimal digits"
    if name == "status":
        yield _one_of(column, RANK), f"is none of {', '.join(RANK)}"
    if name == "role":
        roles = get_args(RecordRole)
        yield _one_of(column, roles), f"is none of {', '.join(roles)}"
    if kind == pa.string():
        most = LONGEST_JSON if name in JSON_COLUMNS else LONGEST_TEXT
        lengths = pc.less_equal(pc.binary_length(column), pa.scalar(most, pa.int32()))
        yield lengths, f"has more than {most} bytes"
    if name in JSON_COLUMNS:
        yield _distinct(column, is_object), "is not a JSON object"
    if name == "suite_card":
        yield _distinct(column, _is_card), "is not the card of a suite"
    if name == "revisions":
        yield _distinct(column, _are_commits), "are no commits of models and data sets"
    if kind == pa.float64():
        yield _is_finite(column), "is not a finite number"
    number = kind in (pa.float64(), pa.int64(), pa.int32())
    if number and name not in ("seed", "schema_version", "dev_before"):
        yield pc.greater_equal(column, pa.scalar(0, kind)), "is negative"
    if name == "started":
        moments = column.cast(pa.int64())
        first, last = pa.scalar(_FIRST), pa.scalar(_LAST)
        inside = pc.and_(pc.greater_equal(moments, first), pc.less_equal(moments, last))
        yield inside, "is no date"
    if name in _FINITE_MAPS:
        yield _all_of(column, _is_number(column.items)), "has a value that is not a finite number"
    if name == "details":
        yield _all_of(column, pc.is_valid(column.items)), "has a value that is missing"
    if name == "uncertainty":
        numbers = [_is_number(column.items.field(number)) for number in range(3)]
        whole = pc.or_(pc.is_null(column.items), reduce(pc.and_, numbers))
        yield _all_of(column, whole), "has a value that is not three finite numbers"
    if name in (*_FINITE_MAPS, *_OTHER_MAPS):
        named = pc.less_equal(pc.binary_length(column.keys), pa.scalar(1000, pa.int32()))
        yield _all_of(column, named), "has a name of more than 1000 bytes"
    if name == "history":
        points = column.values
        parts = [pc.is_valid(points), *(pc.is_valid(points.field(number)) for number in range(4))]
        whole = reduce(pc.and_, parts)
        yield _all_of(column, whole), "has a point without step, stage, metric or value"


def is_object(text: str) -> bool:
    """Whether a text is a JSON object of numbers below 64 bits, texts, null and lists of them."""
    try:
        value = from_json(text, cache_strings="keys")
    except ValueError:
        return False
    return isinstance(value, dict) and _is_plain(value, DEEPEST_JSON)


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in value)
    return not isinstance(value, int) or -BEYOND <= value < BEYOND


def _is_card(text: str) -> bool:
    try:
        parsed_card(text)
    except ValueError:
        return False
    return True


def _are_commits(text: str) -> bool:
    """Whether a JSON object has commits; a text that is none is another fault."""
    return not is_object(text) or all(
        REPOSITORY.fullmatch(name) and COMMIT.fullmatch(commit)
        for name, commits in from_json(text).items()
        for commit in str(commits).split(", ")
    )


def _one_of(column: pa.Array, values: Any) -> pa.Array:
    return pc.is_in(column, pa.array(list(values), pa.string()))


def _is_finite(numbers: pa.Array) -> pa.Array:
    """Whether each number is finite, or nan, which a score may be; null of one that is missing."""
    return pc.or_(pc.is_nan(numbers), pc.less_equal(pc.abs(numbers), pa.scalar(LARGEST_SCORE)))


def _is_number(numbers: pa.Array) -> pa.Array:
    return pc.fill_null(_is_finite(numbers), False)


def _distinct(column: pa.Array, sound: Callable[[str], bool]) -> pa.Array:
    """A check of texts, each of which is checked once: trials of one configuration share it."""
    texts = pc.unique(column).drop_null().to_pylist()
    wrong = [text for text in texts if not sound(text)]
    return pc.invert(pc.is_in(column, pa.array(wrong, pa.string())))


def _all_of(column: pa.Array, sound: pa.Array) -> pa.Array:
    """Whether all values in the list or map of a row are sound. `sound`: of each value."""
    if pc.all(sound).as_py() is not False:
        return pa.array([True] * len(column), pa.bool_())
    ends = column.offsets.to_pylist()
    flags = sound.to_pylist()
    return pa.array([all(flags[start:end]) for start, end in itertools.pairwise(ends)], pa.bool_())


LAST_WRONG = 5
"""The last protocol under which DeepSpeed used only the last batch of a step with accumulation"""
LOOKED_AT = ("key", "protocol", "engine", "configuration", "evaluates", "encoder")
"""Columns that tell which trials were trained wrongly"""
Wrong = Mapping[str, str]
"""Key of a trial that was trained wrongly, or of a record made from one -> the reason"""


def without_wrong(table: pa.Table, wrong: Callable[[], Wrong]) -> pa.Table:
    """The same rows, where those of wrong trials have the status `failed` and say why.

    table: with the column `protocol`. wrong: gives the wrong trials of the whole store; few stores
    have a row to ask about.
    """
    old = _is_old(table)
    if not pc.any(old).as_py() or not (reason_of := wrong()):
        return table
    rows = zip(table["key"].to_pylist(), old.to_pylist(), strict=True)
    reasons = pa.array([reason_of.get(key) if asked else None for key, asked in rows], pa.string())
    failed = pa.array(["failed"] * len(reasons))
    for name, told in (("status", failed), ("reason", reasons)):
        if name in table.column_names:
            values = pc.if_else(pc.is_valid(reasons), told, table[name])
            table = table.set_column(table.column_names.index(name), name, values)
    return table


def _is_old(table: pa.Table) -> pa.ChunkedArray:
    protocols = pc.fill_null(table["protocol"], 0)
    return pc.less_equal(protocols, pa.scalar(LAST_WRONG, pa.int32()))


def wrong_trials(tables: Iterable[pa.Table]) -> Wrong:
    """The trials that were trained wrongly, and what was made from them, with the reasons.

    tables: the rows of all files of a store, with the columns LOOKED_AT.
    """
    wrong: dict[str, str] = {}
    parents: dict[str, str] = {}
    """Key of a record -> that of the trial that it measures, or from whose encoder it starts"""
    old = (table.filter(_is_old(table)).to_pylist() for table in tables)
    for row in itertools.chain.from_iterable(old):
        parent = row["evaluates"] or parts_of(row["encoder"] or "")[1]
        if own := _own_reason(row["engine"] or "{}", row["configuration"] or "{}"):
            wrong[row["key"]] = own
        elif parent:
            parents[row["key"]] = parent
    while more := {key for key, parent in parents.items() if parent in wrong} - wrong.keys():
        for key in more:
            short = parents[key][:10]
            wrong[key] = (
                f"it was made from trial {short}, which was trained wrongly (`harness show "
                f"{short}` says why); run that trial again first"
            )
    return wrong


def _own_reason(engine: str, configuration: str) -> str | None:
    """The reason why an old trial was trained wrongly; None when it was not, or is unreadable."""
    if "deepspeed" not in engine:
        return None
    try:
        how, batches = json.loads(engine), json.loads(configuration).get("accumulation", 1)
        sharded = how.get("engine") == "deepspeed" and how.get("zero") in (1, 2)
    except (ValueError, AttributeError):  # `sound_rows` names the row
        return None
    if not sharded or batches == 1:
        return None
    return (
        f"it was trained wrongly: engine=deepspeed with zero={how['zero']} used only the last of "
        f"the {batches} batches of each step (accumulation) up to protocol {LAST_WRONG}; the same "
        f"command runs it again"
    )
