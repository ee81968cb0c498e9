"""Folds the files of a store into fewer and larger ones, which are sorted by key.

A file is removed after the file that has its rows is on the disk. A compaction that is killed
therefore loses nothing: at worst rows are in two files, and the next compaction folds these, too.
A compacted file joins a fold that has gathered at least half as many rows. The sizes of the files
that stay out then grow like powers, so there are few of them, and a row is folded a few times only.

The file of a trial that has not finished may be replaced by its next attempt at any moment. So it
first gets a name that nobody writes again, and what is removed is what was folded.
"""

import itertools
import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock, Timeout

from harness.files import written_whole
from harness.trials.record import Record, record_of
from harness.trials.record_files import (
    COMPACTED,
    READ_ERRORS,
    ROWS_TOGETHER,
    UNFINISHED,
    each_key_once,
    read_row_groups,
    read_rows,
    sound_rows,
    write_rows,
)

SET_ASIDE = f"{COMPACTED}unfinished-"
"""The beginning of the names of unfinished trials' files that are being folded; in the order of the
names, in which readers take the newest of equals, they come after all other compacted files"""
_logger = logging.getLogger(__name__)


class _DamagedFile(Exception):
    """A file of which only the keys can be read; its path is the argument."""


@dataclass(frozen=True)
class _File:
    """A file of the store, and the columns of it that say what becomes of it."""

    path: Path
    keys: pa.ChunkedArray
    statuses: pa.ChunkedArray

    @property
    def own(self) -> bool:
        """Whether it is the file of a single trial."""
        return len(self.keys) == 1

    @cached_property
    def finished(self) -> pa.ChunkedArray:
        """The keys of the finished trials in it."""
        return self.keys.filter(pc.equal(self.statuses, "finished"))

    def tables(self) -> Iterator[pa.Table]:
        """Its rows in the order of the keys, each key once, some at a time."""
        keys = self.keys.to_pylist()
        try:
            if keys == sorted(set(keys)):
                yield from read_row_groups(self.path)
            else:
                yield _merged(read_rows(self.path))
        except READ_ERRORS:
            raise _DamagedFile(self.path) from None


def compact(folder: Path, at_least: int) -> int:
    """Fold the trials' own files, if there are `at_least`, and all files that share a key.

    Returns how many trials' own files were folded. One process folds at a time, and another one
    returns 0 at once. Raises OSError when the new file cannot be written.
    """
    if not any(folder.glob("*.parquet")):
        return 0
    try:
        with FileLock(folder / ".compaction.lock", timeout=0):
            for left in folder.glob(f".{COMPACTED}*.tmp"):  # of a compaction that was killed
                left.unlink()
            files = [file for path in sorted(folder.glob("[!.]*.parquet")) for file in _read(path)]
            if sum(file.own for file in files) >= at_least:
                files = [kept for file in files for kept in _set_aside(file)]
            return _compact(folder, files, at_least)
    except Timeout:
        return 0


def _read(path: Path) -> list[_File]:
    """The file; nothing where it cannot be read, and then it stays where it is."""
    try:
        table = read_rows(path, ())
    except READ_ERRORS:
        return []
    return [_File(path, table["key"], table["status"])] if table.num_rows else []


def _set_aside(file: _File) -> list[_File]:
    """The file under a name that nobody writes again; nothing if its trial has just finished."""
    if not file.path.name.endswith(UNFINISHED):
        return [file]
    path = file.path.with_name(SET_ASIDE + file.path.name.replace(UNFINISHED, ".parquet"))
    with suppress(FileNotFoundError):
        return [replace(file, path=file.path.replace(path))]
    return []


def _compact(folder: Path, files: Sequence[_File], at_least: int) -> int:
    lasting = [file for file in files if not file.path.name.endswith(UNFINISHED)]
    folded = _chosen(lasting, at_least)
    try:
        if folded:
            _fold(folded, folder / f"{COMPACTED}{uuid.uuid4().hex}.parquet")
    except _DamagedFile as error:
        return _compact(folder, [file for file in files if file.path != error.args[0]], at_least)
    _remove_outdated(files)
    return sum(file.own for file in folded)


def _chosen(files: Sequence[_File], at_least: int) -> list[_File]:
    """The files to be folded into one: small ones, like ones, and those that share a key.

    The compacted files come first: of two results of a key, the one that has been there longer
    stays.
    """
    chosen = _sharing(files)
    own = [file for file in files if file.own]
    if own and len(own) >= at_least:
        gathered = len(own)
        chosen |= {file.path for file in own}
        for file in sorted(files, key=lambda file: len(file.keys)):
            if not file.own and len(file.keys) <= 2 * gathered:
                gathered += len(file.keys)
                chosen.add(file.path)
    ordered = sorted(files, key=lambda file: (not file.path.name.startswith(COMPACTED), file.path))
    return [file for file in ordered if file.path in chosen]


def _sharing(files: Sequence[_File]) -> set[Path]:
    """The files with a key that is there twice."""
    if not files:
        return set()
    chunks = [chunk for file in files for chunk in file.keys.chunks]
    counted = pa.chunked_array(chunks, pa.string()).value_counts()
    twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
    if not len(twice):
        return set()
    return {file.path for file in files if pc.any(pc.is_in(file.keys, twice)).as_py()}


def _fold(files: Sequence[_File], path: Path) -> None:
    """Write the rows of all files into one, and then remove the files.

    The rows go through memory some at a time.
    """
    sources = [file.tables() for file in files if not file.own]
    if own := [file for file in files if file.own]:
        sources.append(_own_tables(own))
    with written_whole(path) as temporary:
        write_rows(_row_groups(_all_merged(sources)), temporary)
    for file in files:
        file.path.unlink(missing_ok=True)


def _own_tables(files: Sequence[_File]) -> Iterator[pa.Table]:
    """The rows of trials' own files in the order of the keys, each key once, some at a time."""
    waiting: dict[str, list[pa.Table]] = {}
    for file in sorted(files, key=lambda file: str(file.keys[0])):
        key = file.keys[0].as_py()
        if len(waiting) == ROWS_TOGETHER and key not in waiting:
            yield _merged(pa.concat_tables(itertools.chain.from_iterable(waiting.values())))
            waiting = {}
        waiting.setdefault(key, []).extend(file.tables())
    yield _merged(pa.concat_tables(itertools.chain.from_iterable(waiting.values())))


def _all_merged(sources: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """The rows of sources that are sorted by key, in the order of the keys, each key once."""
    heads = [(next(source), source) for source in sources]
    while heads:
        # Of no source can a key up to here come later.
        bound = min(head["key"][-1].as_py() for head, _ in heads)
        parts, rest = [], []
        for head, source in heads:
            upto = pc.sum(pc.less_equal(head["key"], bound)).as_py()
            parts.append(head.slice(0, upto))
            left = head.slice(upto) if upto < head.num_rows else next(source, None)
            if left is not None:
                rest.append((left, source))
        yield _merged(pa.concat_tables(parts))
        heads = rest


def _merged(table: pa.Table) -> pa.Table:
    """The table in the order of the keys, each key once; two results of one key are reported."""
    kept = each_key_once(table)
    if kept.num_rows < table.num_rows:
        _report(table)
    return kept.sort_by("key")


def _report(table: pa.Table) -> None:
    """Warn of trials that have finished with different results."""
    counted = table["key"].value_counts()
    twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
    sound, _ = sound_rows(table)
    rows = sound.filter(pc.field("key").isin(twice) & (pc.field("status") == "finished"))
    first: dict[str, Record] = {}
    for record in map(record_of, rows.to_pylist()):
        if different := first.setdefault(record.key, record).difference(record):
            _logger.warning(
                "trial %s has finished twice with another %s; the first result stays",
                *(record.key, different),
            )


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of a multiple of ROWS_TOGETHER, except for the last one."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        count = sum(each.num_rows for each in waiting)
        if count >= ROWS_TOGETHER:
            together, whole = pa.concat_tables(waiting), count - count % ROWS_TOGETHER
            yield together.slice(0, whole)
            waiting = [together.slice(whole)] if whole < count else []
    if waiting:
        yield pa.concat_tables(waiting)


def _remove_outdated(files: Sequence[_File]) -> None:
    """Remove the files of failures of which there is a finished record, too."""
    finished = {key for file in files for key in file.finished.to_pylist()}
    for file in files:
        if file.own and not len(file.finished) and file.keys[0].as_py() in finished:
            file.path.unlink(missing_ok=True)
