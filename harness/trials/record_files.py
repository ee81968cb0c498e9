"""A Parquet file with records: what it may be, its rows between two keys, and how it is written."""

import errno
import functools
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import UserError
from harness.files import Stamp
from harness.inputs import kind_of
from harness.trials.record import RANK, SCHEMA_VERSION, Record, record_of
from harness.trials.record_faults import LOOKED_AT, Wrong, faults_of, without_wrong, wrong_trials
from harness.trials.schema import SCHEMA

ROWS_TOGETHER = 1024
"""Rows of a row group, which is the least that a reader of one row has to unpack"""
READ_ERRORS = (pa.ArrowException, OSError, ValueError, UserError)
"""Exceptions of reading a damaged or foreign file"""
COMPACTED = "compact-"
"""The beginning of the names of files with the records of many trials"""
UNFINISHED = "-unfinished.parquet"
"""Suffix behind the key in the name of the file of a trial that has not finished"""
MOST_ROWS = 10_000_000
"""Rows of a file; a few bytes may claim any number of them"""
KeyRange = tuple[str, str]
"""The first and the last key that are wanted"""
_ALWAYS = ("key", "schema_version", "status")


class Withheld(UserError):
    """A sound file that this process may not read, or whose schema is newer than this harness."""


def read_rows(
    path: Path, columns: Sequence[str] = SCHEMA.names, between: KeyRange | None = None
) -> pa.Table:
    """The rows of a file, with these columns of SCHEMA and those that every reader needs.

    A column that the file does not have, because it is older, is null. Only the row groups that
    have keys in `between` are read. Raises FileNotFoundError for a file that is gone, and one of
    READ_ERRORS for a file that is damaged, foreign or of a newer schema.
    """
    folder, names = path.parent, _named(columns)
    rows = _rows_as_written(path, [*names, "protocol"], between)
    table = without_wrong(rows, lambda: _wrong_of(folder, folder.stat().st_mtime_ns))
    return table.select(names)


@functools.lru_cache(maxsize=8)
def _wrong_of(folder: Path, _changed: int) -> Wrong:
    """The wrong trials of a store; they are remembered until a file comes or goes."""
    tables = []
    for path in folder.glob("[!.]*.parquet"):
        with suppress(*READ_ERRORS):  # `read` names them
            tables.append(_rows_as_written(path, _named(LOOKED_AT)))
    return wrong_trials(tables)


def _rows_as_written(
    path: Path, columns: Sequence[str], between: KeyRange | None = None
) -> pa.Table:
    """The rows of a file, also of wrong trials, as `read_rows` reads them."""
    names = _named(columns)
    if between is not None:
        _check_kind(path)
        keys = _sorted_keys(Stamp.of(path))
        first = bisect_left(keys, between[0])
        if first == len(keys) or keys[first] > between[1]:
            return no_rows(names)
    with _opened(path) as (file, present):
        groups = list(range(file.num_row_groups))
        if between is not None:
            groups = [group for group in groups if _may_have(file, group, between)]
        there = [name for name in names if name in present]
        # For the few rows of most files, threads cost more than they save.
        table = file.read_row_groups(groups, there, use_threads=len(groups) > 1)
    if between is not None:
        table = table.filter(pc.greater_equal(table["key"], between[0]))
        table = table.filter(pc.less_equal(table["key"], between[1]))
    return _of_this_schema(table, names, path)


def no_rows(columns: Sequence[str]) -> pa.Table:
    """An empty table, as `read_rows` gives it for a file without rows."""
    # `empty_table` would make arrays of Python lists, and with them import pandas.
    return pa.Table.from_batches([], schema=SCHEMA).select(_named(columns))


def write_rows(tables: Iterable[pa.Table], path: Path) -> None:
    """Write tables of SCHEMA one below the other, with checksums that show a flipped bit."""
    # Pyarrow takes a relative path with a colon in its first folder for an address.
    with pq.ParquetWriter(path.absolute(), SCHEMA, write_page_checksum=True) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=ROWS_TOGETHER)


def each_key_once(table: pa.Table) -> pa.Table:
    """One row for each key: of several the one with the highest RANK.

    Of equals it is the first that has finished, or else the last. A row with a fault, as far as it
    was read, comes after every other.
    """
    if pc.count_distinct(table["key"]).as_py() == table.num_rows:
        return table
    rows: dict[str, list[int]] = {}
    for index, key in enumerate(table["key"].to_pylist()):
        rows.setdefault(key, []).append(index)
    shared = [row for same in rows.values() if len(same) > 1 for row in same]
    faults = faults_of(table.take(pa.array(shared, pa.int64()))).to_pylist()
    statuses = table["status"].to_pylist()
    rank = {
        row: (-1 if fault else RANK.get(statuses[row], -1), row)
        for row, fault in zip(shared, faults, strict=True)
    }
    rank |= {row: (first, -row) for row, (first, _) in rank.items() if first == RANK["finished"]}
    kept = [max(same, key=lambda row: rank.get(row, (0, 0))) for same in rows.values()]
    return table.take(pa.array(sorted(kept), pa.int64()))


def is_text(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """Whether each value is this text, which has no `%` and no `_`.

    A comparison with a value of Python would import pandas, which takes half a second.
    """
    return pc.match_like(column, pattern=text)


def sound_rows(table: pa.Table) -> tuple[pa.Table, list[tuple[str, str]]]:
    """The rows without a fault, as far as they were read, and (key, fault) of each other row."""
    faults = faults_of(table)
    if faults.null_count == len(faults):
        return table, []
    wrong = pc.is_valid(faults)
    keys, reasons = table["key"].filter(wrong).to_pylist(), faults.filter(wrong).to_pylist()
    return table.filter(pc.invert(wrong)), list(zip(keys, reasons, strict=True))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pq.ParquetFile, list[str]]]:
    """A file and the names of its columns, which pyarrow makes anew whenever one asks for them."""
    _check_kind(path)
    # Threads that read ahead take longer than the few columns of a small file.
    with pq.ParquetFile(path.absolute(), page_checksum_verification=True, pre_buffer=False) as file:
        schema = file.schema_arrow
        names = schema.names
        if missing := sorted({"key", "status"} - set(names)):
            raise ValueError(f"not a trial record: no column {', '.join(missing)}")
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            raise ValueError(f"not a trial record: it has the column {twice[0]} twice")
        if schema.field("key").type != pa.string():
            raise ValueError("not a trial record: its keys are no texts")
        most = MOST_ROWS if path.name.startswith(COMPACTED) else 1
        if file.metadata.num_rows > most:
            raise ValueError(f"it has {file.metadata.num_rows} records; at most {most} are read")
        yield file, names


def _named(columns: Sequence[str]) -> list[str]:
    return [name for name in SCHEMA.names if name in columns or name in _ALWAYS]


def _check_kind(path: Path) -> None:
    """Raise FileNotFoundError or ValueError for what is no file, such as a link to nothing.

    Opening a pipe could block.
    """
    kind = kind_of(path)
    if kind == "nothing":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if kind != "a file":
        raise ValueError(f"it is {kind}")


@functools.lru_cache(maxsize=64)
def _sorted_keys(stamp: Stamp) -> list[str]:
    """The keys of a file, remembered: a worker asks for many keys that are not in it."""
    with _opened(Path(stamp.path)) as (file, _):
        return sorted(file.read(["key"])["key"].drop_null().to_pylist())


def _may_have(file: pq.ParquetFile, group: int, between: KeyRange) -> bool:
    """Whether a row group can have keys in `between`, as its statistics say."""
    row_group = file.metadata.row_group(group)
    chunks = (row_group.column(number) for number in range(row_group.num_columns))
    found = next(chunk.statistics for chunk in chunks if chunk.path_in_schema == "key")
    unknown = found is None or not found.has_min_max
    return unknown or bool(found.min <= between[1] and found.max >= between[0])


def _of_this_schema(table: pa.Table, names: Sequence[str], path: Path) -> pa.Table:
    present = set(table.column_names)  # pyarrow makes these names anew whenever one asks for them
    newest = None
    if "schema_version" in present:
        newest = pc.max(table["schema_version"].cast(pa.int64())).as_py()
    if newest is not None and newest > SCHEMA_VERSION:
        raise Withheld(
            f"its schema is version {newest}, and this harness reads up to {SCHEMA_VERSION}; "
            "update harness"
        )
    if table["key"].null_count:
        raise ValueError("not a trial record: a row has no key")
    for name in names:
        if name not in present:
            table = table.append_column(name, pa.nulls(table.num_rows, SCHEMA.field(name).type))
    wanted, table = no_rows(names).schema, table.select(names)
    table = table if table.schema == wanted else table.cast(wanted)
    table.validate(full=True)  # a text that is not UTF-8 is only noticed here
    key = own_key(path)
    if key is not None and table.num_rows and not pc.all(is_text(table["key"], key)).as_py():
        raise ValueError("its key is not the name of the file")
    return table


@dataclass(frozen=True)
class Reading:
    """The content of a store: one row per trial, and what could not be read."""

    table: pa.Table
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """(name, reason) of each file, and (key, reason) of each row, that could not be read"""

    def records(self) -> list[Record]:
        """The rows as records; a field whose column was not read has its default."""
        return [record_of(row) for row in self.table.to_pylist()]


def listed(folder: Path, start: str = "") -> list[Path]:
    """The Parquet files of a store whose names have this start, without the hidden ones.

    The compacted ones come first: of two equal rows the one that has been there longer counts.
    Raises UserError for a folder that cannot be read.
    """
    try:
        entries = [entry.name for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"the store {folder} cannot be read ({error.strerror})") from None
    names = [name for name in entries if name.endswith(".parquet") and name[0] != "."]
    names = [name for name in names if name.startswith(start)]
    names.sort(key=lambda name: (not name.startswith(COMPACTED), name))
    return [folder / name for name in names]


def own_key(path: Path) -> str | None:
    """The key of the one trial whose record a file has; None of a file of many trials."""
    if path.name.startswith(COMPACTED):
        return None
    return path.name.removesuffix(UNFINISHED).removesuffix(".parquet")


def each_file(
    paths: Callable[[], Iterable[Path]], columns: Sequence[str], between: KeyRange | None = None
) -> Iterator[tuple[Path, pa.Table | Exception]]:
    """Each file once, with its rows, or with the error of reading it.

    `paths`: lists the files. It is called until nothing is new, because a file that has gone was
    folded into one that only the next listing has, and a listing may miss both of them. The other
    arguments are those of `read_rows`.
    """
    done: set[Path] = set()
    while new := [path for path in paths() if path not in done]:
        for path in new:
            rows: pa.Table | Exception
            try:
                rows = read_rows(path, columns, between)
            except FileNotFoundError:
                continue
            except PermissionError:
                rows = Withheld("Permission denied")
            except READ_ERRORS as error:
                rows = error
            done.add(path)
            yield path, rows
