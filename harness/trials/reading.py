"""Reading the files of a store while other processes write, fold and remove them."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from harness.errors import UserError
from harness.trials.record import Record, record_of
from harness.trials.record_files import COMPACTED, READ_ERRORS, KeyRange, read_rows


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
        found = [entry.name for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"the store {folder} cannot be read ({error.strerror})") from None
    names = [name for name in found if name.endswith(".parquet") and name[0] != "."]
    names = [name for name in names if name.startswith(start)]
    names.sort(key=lambda name: (not name.startswith(COMPACTED), name))
    return [folder / name for name in names]


def each_file(
    paths: Callable[[], Iterable[Path]], columns: Sequence[str], between: KeyRange | None = None
) -> Iterator[tuple[Path, pa.Table | str]]:
    """Each file once, with its rows, or with the reason why it cannot be read.

    `paths`: lists the files. It is called again when a file has gone since, because the file was
    folded into one that only the next listing has. The other arguments are those of `read_rows`.
    """
    done: set[Path] = set()
    gone = True
    while gone:
        gone = False
        for path in paths():
            if path in done:
                continue
            found: pa.Table | str
            try:
                found = read_rows(path, columns, between)
            except FileNotFoundError:
                gone = True
                continue
            except READ_ERRORS as error:
                found = str(error).splitlines()[0]
            done.add(path)
            yield path, found
