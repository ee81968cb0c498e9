"""The results store: one Parquet file per trial, written whole or not at all.

Any number of writers on any number of machines may share one folder. The name of a trial's file is
its key, so the same trial is never stored twice. `compact` folds small files into one, and readers
drop a row that they see in both.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import UserError
from harness.files import written_whole
from harness.trials.record import SCHEMA, SCHEMA_VERSION, Record, record_of

DEFAULT_STORE = Path("results/trials")
READ_ERRORS = (pa.ArrowException, OSError, ValueError)
"""What reading a damaged or foreign file raises"""


@dataclass(frozen=True)
class Reading:
    """The content of a store: one row per trial, and the files that could not be read."""

    table: pa.Table
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """(name, reason) of each file that could not be read"""

    def records(self) -> list[Record]:
        """The rows as records."""
        return [record_of(row) for row in self.table.to_pylist()]


class Store:
    """A folder of trial records."""

    def __init__(self, folder: Path | str = DEFAULT_STORE) -> None:
        self.folder = Path(folder)

    def check_writable(self) -> None:
        """Raises UserError when a record could not be written here."""
        parents = (self.folder, *self.folder.absolute().parents)
        there = next(folder for folder in parents if folder.exists())
        probe = there / f".probe-{uuid.uuid4().hex}"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UserError(
                f"the store {self.folder} cannot be written ({error.strerror}); choose another "
                f"folder with --store"
            ) from None

    def weights(self, key: str) -> Path:
        """Where a final trial's trained weights are."""
        return self.folder / "weights" / f"{key}.safetensors"

    def running(self, key: str) -> Path:
        """The folder of a trial that runs: its claim, its checkpoint and its log.

        It is hidden, because readers of Parquet files leave hidden folders out.
        """
        return self.folder / ".running" / key

    def write(self, record: Record) -> None:
        """Write one record atomically; it replaces an earlier one with the same key."""
        table = pa.Table.from_pylist([record.row()], schema=SCHEMA)
        self._write_table(table, f"{record.key}.parquet")

    def finished_or_run(self, key: str, run: Callable[[], Record]) -> Record:
        """The finished record of this key: the stored one, or that of `run`, which is then stored.

        A stored failure does not count, so a failed trial is tried again. What `run` gives back is
        stored and returned in any case; the folder of the running trial is removed then.
        """
        stored = self.get(key)
        if stored is not None and stored.finished:
            return stored
        record = run()
        self.write(record)
        shutil.rmtree(self.running(key), ignore_errors=True)
        return record

    def read(self) -> Reading:
        """Read every trial once; damaged files are named in `unreadable`, and the rest is read."""
        tables: dict[str, pa.Table] = {}
        unreadable: dict[str, str] = {}
        gone: set[str] = set()
        listed_again = True
        while listed_again:
            listed_again = False
            for path in self._files():
                if path.name in tables or path.name in unreadable:
                    continue
                try:
                    tables[path.name] = _read_file(path)
                except READ_ERRORS as error:
                    if isinstance(error, FileNotFoundError) and path.name not in gone:
                        # It was folded after the listing into a file that the next listing has.
                        gone.add(path.name)
                        listed_again = True
                    else:
                        unreadable[path.name] = str(error).splitlines()[0]
        table = pa.concat_tables(tables.values()) if tables else SCHEMA.empty_table()
        return Reading(_each_key_once(table), sorted(unreadable.items()))

    def finished_keys(self) -> set[str]:
        """The keys of the finished trials."""
        table = self.read().table
        return set(table.filter(pc.field("status") == "finished")["key"].to_pylist())

    def get(self, key: str) -> Record | None:
        """The record with this whole key, or None when there is none.

        A failure is returned only when there is no finished record of the same key. The trial's own
        file is read first, then the compacted ones.
        """
        failure = None
        for path in self._own_then_compacted(key):
            try:
                table = _read_file(path)
            except READ_ERRORS:
                continue  # it is not there, or it is damaged; `read` names the damaged ones
            for row in table.filter(pc.equal(table["key"], key)).to_pylist():
                record = record_of(row)
                if record.finished:
                    return record
                failure = failure or record
        return failure

    def find(self, prefix: str) -> Record:
        """The one trial or evaluation whose key starts with `prefix`.

        Raises UserError when there is none, or when there are several.
        """
        found = self.matching(prefix)
        if not found:
            raise UserError(
                f'no trial in {self.folder} has a key that starts with "{prefix}"; see `harness '
                f"list trials`"
            )
        return only(found, prefix)

    def matching(self, prefix: str) -> list[Record]:
        """The trials and evaluations whose keys start with `prefix`."""
        table = self.read().table
        rows = table.filter(pc.starts_with(table["key"], prefix)).to_pylist()
        return [record_of(row) for row in rows]

    def _own_then_compacted(self, key: str) -> Iterator[Path]:
        """The trial's own file, then the compacted ones.

        The compacted files are listed after the own file was looked for, so that a compaction in
        between hides nothing.
        """
        yield self.folder / f"{key}.parquet"
        yield from self.folder.glob("compact-*.parquet")

    def compact(self, at_least: int = 256) -> int:
        """Fold the files of finished trials into one, if there are `at_least` files.

        Returns how many were folded. The new file is in place before the old ones are removed, so
        no reader misses a trial. A failure keeps its own file, because another sweep may be about
        to replace it.
        """
        paths = [path for path in self._files() if not path.name.startswith("compact-")]
        if len(paths) < at_least:
            return 0
        folded, tables = [], []
        for path in paths:
            try:
                table = _read_file(path)
            except READ_ERRORS:
                continue  # the file stays where it is, and `read` names it
            if table["status"].to_pylist() == ["finished"]:
                folded.append(path)
                tables.append(table)
        if not tables:
            return 0
        together = _each_key_once(pa.concat_tables(tables))
        self._write_table(together, f"compact-{uuid.uuid4().hex}.parquet")
        for path in folded:
            path.unlink(missing_ok=True)
        return len(folded)

    def _files(self) -> list[Path]:
        """The Parquet files by name, without the temporary ones, which begin with a point."""
        try:
            found = [entry.name for entry in os.scandir(self.folder)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"the store {self.folder} cannot be read ({error.strerror})") from None
        names = [name for name in found if name.endswith(".parquet") and name[0] != "."]
        return [self.folder / name for name in sorted(names)]

    def _write_table(self, table: pa.Table, name: str) -> None:
        with written_whole(self.folder / name) as temporary:
            pq.write_table(table, temporary)


def only(found: list[Record], prefix: str) -> Record:
    """The single record of a list. Raises UserError when several keys start with `prefix`."""
    if len(found) > 1:
        keys = ", ".join(record.key[: len(prefix) + 4] for record in found[:5])
        raise UserError(
            f'{len(found)} trials have keys that start with "{prefix}": {keys}; '
            "give more characters"
        )
    return found[0]


def _read_file(path: Path) -> pa.Table:
    """The table of one file. Raises ValueError for a file that is not of this schema."""
    table = pq.ParquetFile(path).read()
    if missing := set(SCHEMA.names) - set(table.column_names):
        versions = {SCHEMA_VERSION}
        if "schema_version" in table.column_names:
            versions = set(table["schema_version"].to_pylist())
        if versions != {SCHEMA_VERSION}:
            written = ", ".join(map(str, sorted(versions, key=str)))
            raise ValueError(f"its schema is version {written}, this harness has {SCHEMA_VERSION}")
        raise ValueError(f"not a trial record: no column {', '.join(sorted(missing))}")
    return table.select(SCHEMA.names).cast(SCHEMA)


def _each_key_once(table: pa.Table) -> pa.Table:
    """One row for each key: a finished one where there is one, else the first."""
    kept: dict[str, int] = {}
    statuses = table["status"].to_pylist()
    for index, key in enumerate(table["key"].to_pylist()):
        replaces = key in kept and statuses[kept[key]] != "finished"
        if key not in kept or (replaces and statuses[index] == "finished"):
            kept[key] = index
    return table.take(pa.array(sorted(kept.values()), pa.int64()))
