"""The results store: one Parquet file per trial, written whole or not at all.

Any number of writers on any number of machines may share one folder. The name of a finished trial's
file is its key, so the same trial is never stored twice, and what has not finished has a name of
its own, so it never replaces what has. `compact` folds small files into large ones, and readers
drop a row that they see in both.
"""

import errno
import logging
import os
import shlex
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UserError
from harness.files import probe_writable, written_whole
from harness.trials.compaction import compact
from harness.trials.record import RANK, Record, record_of
from harness.trials.record_files import (
    COMPACTED,
    UNFINISHED,
    KeyRange,
    Reading,
    Withheld,
    each_file,
    each_key_once,
    listed,
    no_rows,
    own_key,
    sound_rows,
    write_rows,
)
from harness.trials.schema import SCHEMA, WITHOUT_LARGE
from harness.trials.store_folders import PROGRESS, StoreFolders, store_option

SMALL_FILES = 256
"""The number of trials' own files that are worth a compaction, since many files are slow to read"""
LAST_CHARACTER = "\U0010ffff"
"""A character greater than every character of a key"""
Where = Mapping[str, Collection[str]]
"""Column -> the texts of which a row must have one"""
_logger = logging.getLogger(__name__)


def rows_with(table: pa.Table, where: Where) -> pa.Table:
    """The rows of a table that have what is asked for."""
    # An expression of pyarrow would import its data sets, which nothing else here needs.
    for column, texts in where.items():
        table = table.filter(pc.is_in(table[column], pa.array([*texts], pa.string())))
    return table


class Store(StoreFolders):
    """A folder of trial records."""

    def check_writable(self) -> None:
        """Raises UserError when a record could not be written here."""
        try:
            probe_writable(self.folder)
        except OSError as error:
            raise UserError(
                f"the store {self.folder} cannot be written ({error.strerror}); choose another "
                f"folder with --store"
            ) from None

    def unsent(self) -> int:
        """The number of records that wait here for the place that machines share."""
        return 0

    def receive(self) -> None:
        """Bring what is here up to date with the place that machines share."""

    def write(self, record: Record) -> None:
        """Write one record atomically, unless the store has more of this trial already.

        A finished record is never replaced, and one that differs from it in its result is reported
        with a warning. A failure replaces no record of another status. Raises
        UserError when the record cannot be written.
        """
        write = self._write_finished if record.finished else self._write_unfinished
        try:
            try:
                write(record)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                # These can be made again from the record, but scores are worth the whole trial.
                checkpoints = self.running(record.key).glob("*.safetensors")
                for large in (self.weights(record.key), *checkpoints):
                    large.unlink(missing_ok=True)
                write(record)
        except OSError as error:
            sentence = f"the record of trial {record.key[:10]} cannot be written to the store"
            raise no_room(f"{sentence} {self.folder}", error) from None

    def finished_or_run(
        self, key: str, title: str, run: Callable[[], Record], search: str = ""
    ) -> Record:
        """The finished record of this key: the stored one, or that of `run`, which is then stored.

        A stored failure does not count, so a failed trial is tried again; a pruned trial counts for
        the search with the identifier `search` that has pruned it. What `run` gives back is
        stored and returned in any case. While another process runs the same trial, this one waits
        for its record; `title` names the trial for those who wait. Raises Postponed instead of
        waiting inside of `harness.locks.postponing`. The folder of the running trial is removed
        when its record is written.
        """
        stored = self.get(key)
        if stored is not None and stored.counts_for(search):
            return stored
        with self.claimed(key, title):
            stored = self.get(key)  # the process that was waited for may have finished it
            if stored is None or not stored.counts_for(search):
                stored = run()
                self.write(stored)
            shutil.rmtree(self.running(key), ignore_errors=True)
        with suppress(OSError):  # other trials run
            self.running_folder.rmdir()
        return stored

    def read(
        self,
        columns: Sequence[str] = SCHEMA.names,
        where: Where | None = None,
        between: KeyRange | None = None,
    ) -> Reading:
        """Read every trial once.

        Files and rows that are damaged are named in `unreadable`, and the rest is read. `columns`:
        only these, with key, schema_version and status; a history is most of a row's bytes.
        `where`: what a row must have. `between`: only keys from the first to the second.
        """
        self.receive()
        where = where or {}
        columns = (*columns, *where)
        tables: list[pa.Table] = []
        unreadable: list[tuple[str, str]] = []
        first, last = between or ("", LAST_CHARACTER)
        keys = frozenset(where["key"]) if "key" in where else None

        def paths() -> list[Path]:
            """The files that may have a wanted key; most are named by the only one they have."""
            return [
                path
                for path in listed(self.folder)
                if (key := own_key(path)) is None
                or (first <= key <= last and (keys is None or key in keys))
            ]

        for path, rows in each_file(paths, columns, between):
            if isinstance(rows, pa.Table):
                tables.append(rows)
            else:
                unreadable.append((path.name, str(rows).splitlines()[0]))
        if not tables:
            return Reading(no_rows(columns), sorted(unreadable))
        table = each_key_once(pa.concat_tables(tables))
        table, reasons = sound_rows(rows_with(table, where))
        return Reading(table, sorted([*unreadable, *reasons]))

    def finished_keys(self) -> set[str]:
        """The keys of the finished trials."""
        return set(self.read((), {"status": ["finished"]}).table["key"].to_pylist())

    def get(self, key: str) -> Record | None:
        """The record with this whole key, or None when there is none that can be read.

        A failure is returned only when there is no finished record of the same key. Raises
        UserError when a sound file, which may have a finished one, is withheld from this process.
        """
        unfinished: Record | None = None
        for path, table in each_file(lambda: self._may_have(key), SCHEMA.names, (key, key)):
            if isinstance(table, Withheld) and not path.name.endswith(UNFINISHED):
                raise UserError(f"{path.name} in {self.folder} cannot be read: {table}")
            if not isinstance(table, pa.Table) or not table.num_rows:
                continue  # `read` names what is damaged
            for row in sound_rows(table)[0].to_pylist():
                record = record_of(row)
                if record.finished:
                    return record
                if unfinished is None or RANK[record.status] > RANK[unfinished.status]:
                    unfinished = record
        return unfinished

    def find(self, prefix: str) -> Record:
        """The one trial or evaluation whose key starts with `prefix`.

        Raises UserError when there is none, or when there are several.
        """
        reading = self._reading_of(prefix)
        if reading.table.num_rows:
            found = only(reading.records(), prefix)
            return self.get(found.key) or found  # with its history
        for name, reason in reading.unreadable:
            if name.startswith(prefix):
                raise UserError(f"{name} in {self.folder} cannot be read: {reason}")
        for note in self.running_folder.glob(f"*/{PROGRESS}"):
            if note.parent.name.startswith(prefix):
                key = note.parent.name[:10]
                logs = shlex.join(["harness", "logs", key, *store_option(self.place)])
                raise UserError(
                    f"trial {key} has no record yet: it runs, or was stopped; what it has printed: "
                    f"`{logs}`"
                )
        raise UserError(
            f'no trial in {self.folder} has a key that starts with "{prefix}"; see `harness list '
            f"trials`"
        )

    def matching(self, prefix: str) -> list[Record]:
        """The trials and evaluations whose keys start with `prefix`, without LARGE_COLUMNS."""
        return self._reading_of(prefix).records()

    def compact(self, at_least: int = SMALL_FILES) -> int:
        """Fold the trials' own files, if there are `at_least`; `compaction` says how.

        Returns how many were folded. A compaction that fails, for example on a full disk, is logged
        and changes nothing.
        """
        try:
            return compact(self.folder, at_least)
        except OSError as error:
            _logger.warning("the store %s is not compacted: %s", self.folder, error)
            return 0

    def add(self, tables: Iterable[pa.Table]) -> None:
        """Write rows of finished trials, which the store does not have yet, into one file.

        tables: of SCHEMA, with keys in ascending order. Raises UserError when that is not possible.
        """
        try:
            with written_whole(self.folder / f"{COMPACTED}{uuid.uuid4().hex}.parquet") as path:
                write_rows(tables, path)
        except OSError as error:
            raise no_room(f"the store {self.folder} cannot be written", error) from None

    def keep(self, name: str, path: Path) -> None:
        """Copy a file of weights or of cosines to where this store has them under this name.

        Raises UserError when that is not possible.
        """
        try:
            with written_whole(self.weights_folder / name) as temporary:
                shutil.copyfile(path, temporary)
        except OSError as error:
            raise no_room(f"{self.weights_folder} cannot be written", error) from None

    def _write_finished(self, record: Record) -> None:
        if self._has_finished(record):
            return
        own = self.folder / f"{record.key}.parquet"
        try:
            self._write_file(record, own, replace=False)
        except FileExistsError:
            if self._has_finished(record):  # another process has written it in the meantime
                return
            self._write_file(record, own)  # it is damaged
        self._unfinished(record.key).unlink(missing_ok=True)

    def _write_unfinished(self, record: Record) -> None:
        stored = self.get(record.key)
        if stored is not None and RANK[stored.status] > RANK[record.status]:
            return
        self._write_file(record, self._unfinished(record.key))
        stored = self.get(record.key)
        if stored is not None and stored.finished:  # it has finished elsewhere in the meantime
            self._unfinished(record.key).unlink(missing_ok=True)

    def _has_finished(self, record: Record) -> bool:
        """Whether the store has a finished record of this trial; another result is reported."""
        stored = self.get(record.key)
        if stored is None or not stored.finished:
            return False
        if different := stored.difference(record_of(_table(record).to_pylist()[0])):
            message = "trial %s has finished twice with another %s; the first result stays in %s"
            _logger.warning(message, record.key, different, self.folder)
        return True

    def _write_file(self, record: Record, path: Path, *, replace: bool = True) -> None:
        with written_whole(path, replace=replace) as temporary:
            write_rows([_table(record)], temporary)

    def _unfinished(self, key: str) -> Path:
        return self.folder / f"{key}{UNFINISHED}"

    def _reading_of(self, prefix: str) -> Reading:
        return self.read(WITHOUT_LARGE, between=(prefix, prefix + LAST_CHARACTER))

    def _may_have(self, key: str) -> list[Path]:
        """The files that may have this key, in the order in which a record moves through them.

        A record that moves on between two looks is then seen in the later one. Of what has not
        finished, the newest comes first.
        """
        own = (self._unfinished(key), self.folder / f"{key}.parquet")
        there = [path for path in own if os.path.lexists(path)]
        return [*there, *reversed(listed(self.folder, COMPACTED))]


def no_room(sentence: str, error: OSError) -> UserError:
    """The error of a disk to which something cannot be written, as the sentence says."""
    why = os.strerror(error.errno or errno.EIO)
    return UserError(f"{sentence} ({why}); make room there, and give the same command again")


def only(records: list[Record], prefix: str) -> Record:
    """The single record of a list. Raises UserError when several keys start with `prefix`."""
    if len(records) > 1:
        keys = ", ".join(record.key[: len(prefix) + 4] for record in records[:5])
        raise UserError(
            f'{len(records)} trials have keys that start with "{prefix}": {keys}; '
            "give more characters"
        )
    return records[0]


def _table(record: Record) -> pa.Table:
    return pa.Table.from_pylist([record.row()], schema=SCHEMA)
