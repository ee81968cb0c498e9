"""Rows of a user's file in any format, as the file says them.

No type is guessed, nothing is filled in, and nothing is left out: docs/corpora.md has the rules. A
file is data of a stranger, so what it may unpack to has bounds. Rows come as a stream.
"""

import csv
import gzip
import itertools
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UserError, explained

ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".txt")
"""Endings of the files that are read; all but Parquet may have .gz behind it"""
LONGEST_LINE = 2**24
"""Bytes of a line, which is one text or one row"""
UNPACKED = 100
"""Times its own size that a packed file may become; text becomes 3 to 10 times as large"""
FREELY = 2**26
"""Bytes that any packed file may become"""
LARGEST_LIST = 2**30
"""Characters of a list of JSON, which is read whole"""
FIRST_ROWS = 10_000
"""Rows of JSON that say which columns there are"""
ROWS_AT_ONCE = 1000
"""Rows of Parquet that are in memory at once"""
_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""Names of the columns in which pandas writes the numbers of rows"""
_RETURN = "\ufdd0"
"""A noncharacter of Unicode that stands for a carriage return in CSV: the library `csv` refuses one
outside of quotation marks, where it is a character of the text like others"""


def ending(path: Path) -> str:
    """The ending that says the format of a file, in small letters, without .gz behind it."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def columns_of(path: Path) -> list[str]:
    """The columns of a file, without those in which pandas numbers the rows.

    Raises UserError for a file that cannot be read or has no row.
    """
    if next(rows_of(path), None) is None:
        raise UserError(f"{path} holds no item")
    return [name for name in _columns(path) if not _INDEX.fullmatch(name)]


def rows_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a file: column -> value, which is None where JSON or Parquet has none.

    Raises UserError, with the line, for a row that has not the columns of the others.
    """
    kind = ending(path)
    if kind not in ENDINGS or (kind == ".parquet" and path.suffix.lower() == ".gz"):
        raise UserError(f"{path} cannot be read: {endings()}")
    if kind == ".parquet":
        return _rows_of_parquet(path)
    if kind in (".json", ".jsonl"):
        return _rows_of_json(path)
    if kind == ".txt":
        return ({"text": line.removesuffix("\n")} for line in text_lines(path))
    return rows_of_records(path)


def endings() -> str:
    """The sentence about the files that are read."""
    return f"files are read that end in {', '.join(ENDINGS)}, all but Parquet also with .gz behind"


def said(value: Any) -> str:
    """A value as a text file says it: `true`, `2015.0`, nothing for a value that is missing."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def text_lines(path: Path) -> Iterator[str]:
    r"""The lines of a file, packed or not, each with its `\n`, which the last one may lack.

    Lines end with `\n` or `\r\n` and nothing else. Blanks behind the last line end are no line, and
    a byte order mark is no part of the text. Raises UserError, with the line, for what is not UTF-8
    and for a line or a packed file that is too large.
    """
    packed = path.suffix.lower() == ".gz"
    most = max(FREELY, UNPACKED * path.stat().st_size)
    total = 0
    with explained(f"{path} cannot be read: "), _opened(path, packed) as file:
        for number in itertools.count(1):
            try:
                line = file.readline(LONGEST_LINE + 1)
            except (EOFError, OSError, zlib.error) as error:
                beginning = f"{path} cannot be read: behind line {number - 1}"
                raise UserError(f"{beginning}, {error}") from None
            total += len(line)
            if len(line) > LONGEST_LINE:
                raise UserError(f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MiB")
            if packed and total > most:
                raise UserError(
                    f"{path}, line {number}: it becomes more than {UNPACKED} times as large when "
                    f"it is unpacked; unpack it yourself if that is right"
                )
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise UserError(f"{path}, line {number}: not UTF-8 text") from None
            if not text.endswith("\n") and not text.strip():
                return
            yield text[:-2] + "\n" if text.endswith("\r\n") else text


def records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row of CSV or TSV, with the number of the row's last line.

    In TSV, a quotation mark is a character like others. Raises UserError for a row that is not CSV.
    """
    if ending(path) == ".tsv":
        for number, line in enumerate(text_lines(path), start=1):
            yield number, line.removesuffix("\n").split("\t")
        return
    # A row with a stray quotation mark is refused, which would else be joined with others.
    reader = csv.reader((line.replace("\r", _RETURN) for line in text_lines(path)), strict=True)
    try:
        for row in reader:
            yield reader.line_num, [field.replace(_RETURN, "\r") for field in row]
    # Such as a quote that never ends: it reaches the csv module's longest field.
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}") from None


def _opened(path: Path, packed: bool) -> Any:
    return gzip.open(path, "rb") if packed else path.open("rb")


def _columns(path: Path) -> list[str]:
    kind = ending(path)
    if kind == ".txt":
        return ["text"]
    if kind == ".parquet":
        with _parquet(path) as file:
            return list(file.schema_arrow.names)
    if kind in (".csv", ".tsv"):
        return next((fields for _, fields in records(path)), [])
    first = itertools.islice(_objects(path), FIRST_ROWS)
    return list(dict.fromkeys(name for _, row in first for name in row))


def rows_of_records(path: Path) -> Iterator[dict[str, str]]:
    """The rows of CSV or TSV: column -> field.

    Raises UserError, with the line, for a row that has more or fewer fields than the header.
    """
    every = records(path)
    _, header = next(every, (0, []))
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise UserError(f'{path}, line 1: the header has the column "{twice}" twice')
    empty = 0
    for number, fields in every:
        if fields in ([], [""]):
            if len(header) == 1:  # as in a text file, an empty line is an empty text
                yield {header[0]: ""}
            else:  # behind the last row it is nothing
                empty = empty or number
            continue
        if empty or len(fields) != len(header):
            raise UserError(
                f"{path}, line {empty or number}: {len(header)} fields were expected, "
                f"{0 if empty else len(fields)} found"
            )
        yield dict(zip(header, fields, strict=True))


class _Number(float):
    """A number of JSON that keeps its digits as they are written."""

    digits: str

    def __new__(cls, digits: str) -> "_Number":
        number = super().__new__(cls, digits)
        number.digits = digits
        return number

    def __str__(self) -> str:
        return self.digits


def _rows_of_json(path: Path) -> Iterator[dict[str, Any]]:
    columns = dict.fromkeys(_columns(path))
    for number, row in _objects(path):
        if number > FIRST_ROWS and (further := row.keys() - columns):
            raise UserError(
                f'{path}, row {number}: the first {FIRST_ROWS} rows have no "{min(further)}"'
            )
        yield {**columns, **row}


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, with their numbers: one a line, or all of them in one list."""
    lines = filter(lambda each: each[1].strip(), enumerate(text_lines(path), start=1))
    first = next(lines, None)
    if first and first[1].lstrip().startswith("["):
        parts, size = [], 0
        for _, line in itertools.chain([first], lines):
            parts.append(line)
            size += len(line)
            if size > LARGEST_LIST:
                raise UserError(
                    f"{path} cannot be read: it is one list of more than {LARGEST_LIST >> 20} "
                    f"MiB; write it as JSONL, one object a line"
                )
        values = _decoded("".join(parts), f"{path} cannot be read")
    else:
        values = (
            _decoded(line, f"{path} cannot be read: line {number}")
            for number, line in itertools.chain([first] if first else [], lines)
        )
    for number, value in enumerate(values, start=1):
        if not isinstance(value, dict):
            raise UserError(f"{path} cannot be read: row {number} is {value!r:.40} and no object")
        yield number, value


def _decoded(text: str, beginning: str) -> Any:
    try:
        return json.loads(text, parse_float=_Number, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{beginning}: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _rows_of_parquet(path: Path) -> Iterator[dict[str, Any]]:
    with explained(f"{path} cannot be read: "), _parquet(path) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, use_threads=False):
            yield from batch.to_pylist()


def _parquet(path: Path) -> Any:
    """A file of Parquet, opened. Raises UserError when it claims to become too large."""
    import pyarrow.parquet as pq  # it takes 0.1 s, and no other format needs it

    with explained(f"{path} cannot be read: "):
        file = pq.ParquetFile(path)
        groups = (file.metadata.row_group(group) for group in range(file.num_row_groups))
        if sum(group.total_byte_size for group in groups) > max(
            FREELY, UNPACKED * path.stat().st_size
        ):
            file.close()
            raise UserError(
                f"{path} cannot be read: it says that it becomes more than {UNPACKED} times as "
                f"large when it is unpacked"
            )
        return file
