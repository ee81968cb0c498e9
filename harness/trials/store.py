"""The results store: one Parquet file per trial, written whole or not at all.

Any number of writers on any number of machines may share one folder. A trial's file is named by its key, so the
same trial is never stored twice; `compact` folds small files into one, and readers drop a row seen in both.
"""

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import UserError

SCHEMA_VERSION = 3
DEFAULT_STORE = Path("results/trials")

_METRICS = pa.map_(pa.string(), pa.float64())
_INTERVALS = pa.map_(
    pa.string(),
    pa.struct([("standard_error", pa.float64()), ("low", pa.float64()), ("high", pa.float64())]),
)
_CURVES = pa.list_(
    pa.struct(
        [
            ("step", pa.int64()),
            ("stage", pa.string()),
            ("metric", pa.string()),
            ("value", pa.float64()),
        ]
    )
)
SCHEMA = pa.schema(
    [
        ("key", pa.string()),  # digest of everything that decides the result
        ("schema_version", pa.int32()),
        ("status", pa.string()),  # finished | partial (some tasks have no score) | failed
        ("reason", pa.string()),  # why it failed, or what is missing
        (
            "role",
            pa.string(),
        ),  # search (scored on dev) | final (dev and test) | evaluation (a suite, by harness eval)
        ("search", pa.string()),  # which search asked for it
        ("suite", pa.string()),  # what was measured
        ("evaluates", pa.string()),  # key of the trial that an evaluation measured
        ("method", pa.string()),
        ("setting", pa.string()),  # unsup | semisup | sup
        ("encoder", pa.string()),
        ("seed", pa.int64()),
        (
            "label_fraction",
            pa.float64(),
        ),  # share of the labels that was used; null: the method has no such choice
        ("subset", pa.int64()),  # which random subset of the labels; null likewise
        ("configuration", pa.string()),  # JSON: every hyperparameter, resolved
        ("dev", _METRICS),  # what may select
        (
            "test",
            _METRICS,
        ),  # what is reported: Spearman x100 of STS, accuracy x100 of transfer tasks, ...
        ("details", _METRICS),  # further figures, `task/figure` or `task/subset/figure`
        ("uncertainty", _INTERVALS),  # bootstrap of test and dev scores
        ("history", _CURVES),  # along training: losses, dev scores, what the method watches
        ("steps", pa.int64()),
        ("wall_seconds", pa.float64()),  # the whole trial
        ("training_seconds", pa.float64()),  # the training steps alone
        ("evaluation_seconds", pa.float64()),  # embedding for dev and test scores
        (
            "sentences_per_second",
            pa.float64(),
        ),  # trained on per training second; an evaluation: embedded per second
        ("peak_host_memory_mib", pa.float64()),  # resident
        ("peak_gpu_memory_mib", pa.float64()),  # allocated; null without a GPU
        ("parameters_total", pa.int64()),
        ("parameters_trainable", pa.int64()),
        ("parameters_added", pa.int64()),  # to the pretrained models
        ("precision", pa.string()),  # bf16 | fp32, as run
        ("threads", pa.int32()),
        ("host", pa.string()),
        ("device", pa.string()),
        ("started", pa.timestamp("us", tz="UTC")),
        ("versions", pa.string()),  # JSON: package -> version
        ("commit", pa.string()),
        ("source_digest", pa.string()),
        ("data_digest", pa.string()),
        ("model_digest", pa.string()),
        ("protocol", pa.int32()),
    ]
)
MAPS = ("dev", "test", "details", "uncertainty")


@dataclass(frozen=True)
class Reading:
    """What a store holds: one row per trial, and the files that could not be read (name, reason)."""

    table: pa.Table
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """The trials as dictionaries; `configuration` and `versions` parsed, metrics as dictionaries."""
        return [_parsed(row) for row in self.table.to_pylist()]


class Store:
    """A folder of trial records."""

    def __init__(self, folder: Path | str = DEFAULT_STORE) -> None:
        self.folder = Path(folder)

    def check_writable(self) -> None:
        """Raises UserError when a record could not be written here."""
        there = next(
            folder for folder in (self.folder, *self.folder.absolute().parents) if folder.exists()
        )
        probe = there / f".probe-{uuid.uuid4().hex}"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UserError(
                f"the store {self.folder} cannot be written ({error.strerror}); choose another folder with --store"
            ) from None

    def weights(self, key: str) -> Path:
        """Where a final trial's trained weights are."""
        return self.folder / "weights" / f"{key}.safetensors"

    def write(self, record: Mapping[str, Any]) -> None:
        """Add one trial, atomically; a record with the same key (an earlier failure) is replaced."""
        row = {name: record.get(name) for name in SCHEMA.names}
        row["schema_version"] = SCHEMA_VERSION
        for name in ("label_fraction", "subset"):
            row[name] = record["configuration"].get(name)
        for name in ("configuration", "versions"):
            row[name] = json.dumps(row[name], sort_keys=True)
        for name in MAPS:
            row[name] = list((row[name] or {}).items())
        row["history"] = row["history"] or []
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_table(pa.Table.from_pylist([row], schema=SCHEMA), f"{row['key']}.parquet")

    def read(self) -> Reading:
        """Every trial once. A damaged file is named in `unreadable` and the rest is read."""
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
                except (pa.ArrowException, OSError, ValueError) as error:
                    if isinstance(error, FileNotFoundError) and path.name not in gone:
                        gone.add(
                            path.name
                        )  # folded since the listing into a file that the next listing has
                        listed_again = True
                    else:
                        unreadable[path.name] = str(error).splitlines()[0]
        table = pa.concat_tables(tables.values()) if tables else SCHEMA.empty_table()
        return Reading(_each_key_once(table), sorted(unreadable.items()))

    def keys(self, status: str = "finished") -> set[str]:
        """Keys of the trials with this status."""
        table = self.read().table
        pairs = zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True)
        return {key for key, found in pairs if found == status}

    def get(self, key: str) -> dict[str, Any] | None:
        """One trial by its whole key, or None; reads its own file, then the compacted ones. A failure only if it has
        not finished."""
        failure = None
        for path in self._own_then_compacted(key):
            try:
                table = _read_file(path)
            except (pa.ArrowException, OSError, ValueError):
                continue  # not there, or damaged: `read` names the damaged ones
            for row in table.filter(pc.equal(table["key"], key)).to_pylist():
                if row["status"] == "finished":
                    return _parsed(row)
                failure = failure or row
        return None if failure is None else _parsed(failure)

    def _own_then_compacted(self, key: str) -> Iterator[Path]:
        """The compacted files are listed after the own one was looked for: a compaction in between hides nothing."""
        yield self.folder / f"{key}.parquet"
        yield from self.folder.glob("compact-*.parquet")

    def compact(self, at_least: int = 256) -> int:
        """Fold the files of finished trials into one file when there are `at_least` files; how many were folded.

        The new file is in place before the old ones go, so no reader misses a trial. A failure keeps its own file:
        another sweep may be about to replace it.
        """
        paths = [path for path in self._files() if not path.name.startswith("compact-")]
        if len(paths) < at_least:
            return 0
        folded, tables = [], []
        for path in paths:
            try:
                table = _read_file(path)
            except (pa.ArrowException, OSError, ValueError):
                continue  # left where it is, for `read` to name
            if table["status"].to_pylist() == ["finished"]:
                folded.append(path)
                tables.append(table)
        if not tables:
            return 0
        self._write_table(
            _each_key_once(pa.concat_tables(tables)), f"compact-{uuid.uuid4().hex}.parquet"
        )
        for path in folded:
            path.unlink(missing_ok=True)
        return len(folded)

    def _files(self) -> list[Path]:
        try:
            found = [entry for entry in os.scandir(self.folder) if entry.name.endswith(".parquet")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"the store {self.folder} cannot be read ({error.strerror})") from None
        return [
            Path(entry.path)
            for entry in sorted(found, key=lambda entry: entry.name)
            if entry.name[0] != "."
        ]

    def _write_table(self, table: pa.Table, name: str) -> None:
        temporary = self.folder / f".{name}.{uuid.uuid4().hex}.tmp"
        try:
            pq.write_table(table, temporary)
            temporary.replace(self.folder / name)
        finally:
            temporary.unlink(missing_ok=True)


def _read_file(path: Path) -> pa.Table:
    table = pq.ParquetFile(path).read()
    missing = set(SCHEMA.names) - set(table.column_names)
    if missing:
        raise ValueError(f"not a trial record: no column {', '.join(sorted(missing))}")
    return table.select(SCHEMA.names).cast(SCHEMA)


def _each_key_once(table: pa.Table) -> pa.Table:
    """The first row of each key, but a finished trial rather than its earlier failure."""
    kept: dict[str, int] = {}
    statuses = table["status"].to_pylist()
    for index, key in enumerate(table["key"].to_pylist()):
        if key not in kept or (statuses[kept[key]] != "finished" and statuses[index] == "finished"):
            kept[key] = index
    return table.take(pa.array(sorted(kept.values()), pa.int64()))


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("configuration", "versions"):
        row[name] = json.loads(row[name]) if row[name] else {}
    for name in MAPS:
        row[name] = dict(row[name] or ())
    return row


def label(row: Mapping[str, Any]) -> str:
    """A trial for people: method, setting, encoder, seed, and the subset where only a share of the labels was used."""
    share = 1 if row["label_fraction"] is None else row["label_fraction"]
    drawn = f" subset {row['subset']} of {100 * share:g} %" if share < 1 else ""
    return f"{row['method']} {row['setting']} {row['encoder']} seed {row['seed']}{drawn}"


def find(rows: Iterable[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    """The trials whose key starts with `prefix`."""
    return [row for row in rows if row["key"].startswith(prefix)]
