"""Rows of tables in every format, with values as the file spells them: no type is guessed.

A value is a text, None where it is missing, or what is no text: a `Number` of JSON, true and false,
lists, mappings, and the values of a typed column of Parquet. Lines and packed files have bounds
that no stranger's file exceeds.
"""

import csv
import functools
import gzip
import io
import itertools
import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import UserError, explained

LONGEST_LINE = 2**24
"""Bytes of a line"""
LARGEST_LIST = 2**28
"""Bytes of a list of JSON, which is read whole"""
SMALL_TEXT = 2**26
"""Bytes that a packed file may hold in any case"""
MOST_TIMES = 100
"""A packed file with more holds at most so many times its own size; text packs to a tenth"""
PACKED = ".gz"
_MARK = "\ufeff"
"""The byte order mark, which some programs write in front of a text"""


def unpacked_limit(path: Path) -> int:
    """The bytes that a packed file may hold."""
    return max(SMALL_TEXT, MOST_TIMES * path.stat().st_size)


def too_large(path: Path) -> UserError:
    """The refusal of a packed file that holds more than `unpacked_limit`."""
    return UserError(
        f"{path} holds more than {unpacked_limit(path)} bytes, which is the most that is read of a "
        f"packed file of its size; unpack it if you trust it"
    )


class _Unpacked(io.RawIOBase):
    """The content of a gzip file. Raises UserError for a damaged file and behind the limit."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._left = path, unpacked_limit(path)
        self._file = gzip.GzipFile(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            count = self._file.readinto(buffer)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{self._path} cannot be read: {error}") from None
        self._left -= count
        if self._left < 0:
            raise too_large(self._path)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def opened_file(path: Path) -> BinaryIO:
    """The content of a file, of a packed one (.gz) what is in it."""
    if path.suffix.lower() == PACKED:
        return io.BufferedReader(_Unpacked(path), 2**16)
    return path.open("rb")


def text_lines(path: Path) -> Iterator[str]:
    r"""The lines of a file, with the line ends as `\n`.

    A line ends at `\n` or `\r\n`; any other character is a part of the text. A byte order mark in
    front and blanks behind the last line end are no part of it. Raises UserError, with the line,
    for what is not UTF-8 and for a line above `LONGEST_LINE`.
    """
    with opened_file(path) as file:
        parts = iter(functools.partial(file.readline, LONGEST_LINE + 1), b"")
        for number, line in enumerate(parts, start=1):
            if len(line) > LONGEST_LINE:
                raise UserError(f"{path}, line {number}: it has more than {LONGEST_LINE} bytes")
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise UserError(f"{path}, line {number}: not UTF-8 text") from None
            if number == 1:
                text = text.removeprefix(_MARK)
            if text.endswith("\n") or text.strip():
                yield text.replace("\r\n", "\n")


TableRow = Mapping[str, Any]
"""Column -> value"""
ROWS_IN_MEMORY = 1000
"""Rows of Parquet that are in memory at once, and rows of JSON that say which columns there are"""
_BOM = b"\xef\xbb\xbf"
# Both are no characters of a text in UTF-8, so no field holds them.
_RETURN = "\udc0d"
"""Stand-in for a carriage return inside a line, at which the csv module would end the row"""
_END = "\udc03"
"""End mark behind the last line, so that a quotation that never ends is noticed"""


class Number(str):
    """A number of a JSON text, as it is spelt there."""

    __slots__ = ()


def spelt(value: Any) -> str:
    """A value as a filter compares it: as JSON and CSV spell it; a missing one is empty."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def number_of(value: Any) -> float:
    """A value as a number; NaN for one that is none."""
    text = spelt(value)
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def ending(path: Path) -> str:
    """The ending of a file that says its format, in small letters: that before .gz."""
    return Path(path.name.lower().removesuffix(PACKED)).suffix


def bare_name(path: Path) -> str:
    """The name of a file without its ending and without .gz, in small or capital letters."""
    return (path.with_suffix("") if path.suffix.lower() == PACKED else path).stem


def rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[str, TableRow]]:
    """The rows of a file, each with its place.

    `columns`: those that are wanted; a file that has columns apart reads no other. Raises UserError
    for a file that is damaged or larger than its bounds, and for a row that lacks a field.
    """
    read = FORMATS.get(ending(path))
    if read is None:
        raise UserError(f"{path} cannot be read: only {known_endings()} are")
    with explained(f"{path} cannot be read: "):
        yield from read(path, columns)


def known_endings() -> str:
    """The endings that are read, as a sentence names them."""
    return f"files whose names end in {', '.join(FORMATS)} (and {PACKED} behind it)"


def columns_of(path: Path) -> list[str]:
    """The columns of a table. Raises UserError for a file that cannot be read or has no row.

    Those of JSON are the keys of the first `ROWS_IN_MEMORY` rows.
    """
    first = [row for _, row in itertools.islice(rows(path), ROWS_IN_MEMORY)]
    if not first:
        raise UserError(f"{path} holds no item")
    return list(dict.fromkeys(itertools.chain.from_iterable(first)))


def _text(path: Path, _: Sequence[str] | None) -> Iterator[tuple[str, TableRow]]:
    for number, line in enumerate(text_lines(path), start=1):
        yield f"{path}, line {number}", {"text": line.removesuffix("\n")}


def _csv(path: Path, _: Sequence[str] | None) -> Iterator[tuple[str, TableRow]]:
    def fields() -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(LONGEST_LINE)  # else 131,072 characters
        given = (line.replace("\r", _RETURN) for line in text_lines(path))
        reader = csv.reader(itertools.chain(given, [_END]))
        try:
            for texts in reader:
                if texts == [_END]:
                    return
                if texts and texts[-1].endswith(_END):
                    raise UserError(f"{path}, line {reader.line_num - 1}: a quotation never ends")
                yield reader.line_num, [text.replace(_RETURN, "\r") for text in texts]
        except csv.Error as error:
            raise UserError(f"{path}, line {reader.line_num}: {error}") from None

    return _under_header(path, fields())


def _tsv(path: Path, _: Sequence[str] | None) -> Iterator[tuple[str, TableRow]]:
    # In the TSV files of the field a quotation mark is a character like others.
    split = (line.removesuffix("\n").split("\t") for line in text_lines(path))
    return _under_header(path, enumerate(split, start=1))


def _under_header(
    path: Path, lines: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[str, TableRow]]:
    """Rows of a file whose first row names the columns."""
    _, header = next(lines, (1, []))
    _check_distinct(path, header)
    for line, texts in lines:
        fields = texts or [""]  # in a file with one column, a blank line is an empty text
        if len(fields) != len(header):
            raise UserError(
                f"{path}, line {line}: {len(header)} fields were expected, {len(texts)} found"
                f"{other_separator(path, header)}"
            )
        yield f"{path}, line {line}", dict(zip(header, fields, strict=True))


_SEPARATORS = {"commas": ",", "tabs": "\t", "semicolons": ";", "vertical bars": "|"}


def other_separator(path: Path, columns: Sequence[str]) -> str:
    """The end of a sentence about a table whose only column is a row of another separator."""
    wanted = {".csv": "commas", ".tsv": "tabs"}.get(ending(path))
    for name, sign in _SEPARATORS.items():
        if wanted and len(columns) == 1 and sign in columns[0]:
            return (
                f"; {wanted} stand between the fields of such a file, and its first row has {name}"
            )
    return ""


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    """Raises UserError when two columns have one name; several may have none."""
    for name, times in Counter(filter(None, names)).items():
        if times > 1:
            raise UserError(f'{path} has two columns "{name}"')


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return values


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_object
)


def _json(path: Path, _: Sequence[str] | None) -> Iterator[tuple[str, TableRow]]:
    with opened_file(path) as file:
        is_list = file.read(2**12).removeprefix(_BOM).lstrip().startswith(b"[")
    for where, value in _of_list(path) if is_list else _of_lines(path):
        if not isinstance(value, dict):
            raise UserError(
                f"{where}: no JSON object; the file holds one object a line, or a list of objects"
            )
        yield where, value


def _of_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text_lines(path), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, _decoded_json(line, where)


def _of_list(path: Path) -> Iterator[tuple[str, Any]]:
    with opened_file(path) as file:
        content = file.read(LARGEST_LIST + 1)
    if len(content) > LARGEST_LIST:
        raise UserError(
            f"{path}: a list of JSON has at most {LARGEST_LIST} bytes; write one object a line"
        )
    for number, value in enumerate(_decoded_json(content, str(path)), start=1):
        yield f"{path}, item {number}", value


def _decoded_json(text: str | bytes, where: str) -> Any:
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"{where}: no JSON ({why})") from None


def _parquet(path: Path, columns: Sequence[str] | None) -> Iterator[tuple[str, TableRow]]:
    # Its import takes 0.1 s.
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.types import is_dictionary

    left = unpacked_limit(path)
    packed = path.suffix.lower() == PACKED
    with pa.BufferReader(opened_file(path).read()) if packed else pa.OSFile(str(path)) as source:
        file = pq.ParquetFile(source)
        schema = file.schema_arrow
        _check_distinct(path, schema.names)
        wanted = schema.names if columns is None else [n for n in schema.names if n in columns]
        if _claimed(file.metadata, wanted) > left:
            raise too_large(path)
        # A text that a file holds once and repeats is not repeated in memory before it is counted.
        texts = [name for name in wanted if _is_text(schema.field(name).type)]
        file = pq.ParquetFile(source, read_dictionary=texts)
        number = 0
        for batch in file.iter_batches(batch_size=ROWS_IN_MEMORY, columns=wanted):
            left -= sum(_bytes(column) for column in batch.columns)
            if left < 0:
                raise too_large(path)
            values = [
                (column.dictionary_decode() if is_dictionary(column.type) else column).to_pylist()
                for column in batch.columns
            ]
            for row in zip(*values, strict=True):
                number += 1
                yield f"{path}, row {number}", dict(zip(batch.schema.names, row, strict=True))


def _claimed(metadata: Any, wanted: Sequence[str]) -> int:
    """The bytes of some columns, as a file of Parquet says itself."""
    return sum(
        chunk.total_uncompressed_size
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for chunk in map(group.column, range(group.num_columns))
        if chunk.path_in_schema.partition(".")[0] in wanted or chunk.path_in_schema in wanted
    )


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _bytes(column: Any) -> int:
    """The bytes of a column's values, each counted where it is repeated."""
    import pyarrow.compute as pc
    from pyarrow.types import is_dictionary

    if not (is_dictionary(column.type) and _is_text(column.type.value_type)):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(lengths).as_py() or 0)


FORMATS: Mapping[str, Callable[[Path, Sequence[str] | None], Iterator[tuple[str, TableRow]]]] = {
    ".jsonl": _json, ".json": _json, ".csv": _csv, ".tsv": _tsv, ".parquet": _parquet,
    ".txt": _text,
}  # fmt: skip
"""Ending of a file, without .gz -> what reads it"""
