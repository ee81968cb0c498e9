"""Folds the files of a store into fewer and larger ones, which are sorted by key.

A file is removed after the file that has its rows is on the disk. A compaction that is killed
therefore loses nothing: at worst rows are in two files, and the next compaction folds these, too.
A compacted file joins a fold that has gathered at least half as many rows. The sizes of the files
that stay out then grow like powers, so there are few of them, and a row is folded a few times only.

The file of a trial that has not finished may be replaced by its next attempt at any moment. So it
first gets a name that nobody writes again, and what is removed is what was folded.
"""

import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
    keys: list[str]
    finished: set[str]
    """The keys of the finished trials in it"""

    @property
    def own(self) -> bool:
        """Whether it is the file of a single trial."""
        return len(self.keys) == 1

    def rows(self, first: str, last: str) -> pa.Table:
        """Its rows with keys from the first to the last, of which it has some."""
        try:
            return read_rows(self.path, between=None if self.own else (first, last))
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
    finished = table.filter(pc.equal(table["status"], "finished"))["key"].to_pylist()
    return [_File(path, table["key"].to_pylist(), {*finished})] if table.num_rows else []


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
            with written_whole(folder / f"{COMPACTED}{uuid.uuid4().hex}.parquet") as temporary:
                write_rows(_merged(folded), temporary)
    except _DamagedFile as error:
        return _compact(folder, [file for file in files if file.path != error.args[0]], at_least)
    finished = {key for file in files for key in file.finished}
    outdated = [file for file in files if file.own and finished - file.finished >= {*file.keys}]
    for file in (*folded, *outdated):
        file.path.unlink(missing_ok=True)
    return sum(file.own for file in folded)


def _chosen(files: Sequence[_File], at_least: int) -> list[_File]:
    """The files to be folded into one: small ones, like ones, and those that share a key.

    The compacted files come first: of two results of a key, the one that has been there longer
    stays.
    """
    times = Counter(key for file in files for key in file.keys)
    chosen = {file.path for file in files if any(times[key] > 1 for key in file.keys)}
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


def _merged(files: Sequence[_File]) -> Iterator[pa.Table]:
    """The rows of all files in the order of the keys, each key once, some at a time.

    Two results of one key are reported.
    """
    keys = sorted({key for file in files for key in file.keys})
    size = 8 * ROWS_TOGETHER  # whole row groups
    for start in range(0, len(keys), size):
        part = keys[start : start + size]
        wanted = {*part}
        sharing = [file for file in files if not wanted.isdisjoint(file.keys)]
        table = pa.concat_tables([file.rows(part[0], part[-1]) for file in sharing])
        kept = each_key_once(table)
        if kept.num_rows < table.num_rows:
            _report(table)
        yield kept.sort_by("key")


def _report(table: pa.Table) -> None:
    """Warn of trials that have finished with different results."""
    first: dict[str, Record] = {}
    sound, _ = sound_rows(table)
    for record in map(record_of, sound.filter(pc.equal(sound["status"], "finished")).to_pylist()):
        if different := first.setdefault(record.key, record).difference(record):
            message = "trial %s has finished twice with another %s; the first result stays"
            _logger.warning(message, record.key, different)
