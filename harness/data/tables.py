"""Tables become items: files in any format of the `datasets` library, row by row.

The library streams, and texts go to disk as they come, so a table may be larger than memory.
"""

import csv
import itertools
import math
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.corpus_names import CorpusName, check_column
from harness.data.readers import CONTRADICTION, ENTAILMENT, NEUTRAL, Corpus
from harness.data.shapes import ROLES, Shape, recognised, shape_of_roles
from harness.data.texts import text_columns
from harness.errors import UserError, explained

BUILDERS = {
    ".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet",
    ".txt": "text",
}  # fmt: skip
"""Ending of a file, without .gz -> what reads it in the library"""
NLI_LABELS = {"entailment": ENTAILMENT, "neutral": NEUTRAL, "contradiction": CONTRADICTION}
UNLABELLED = ("-1", "-", "")
"""How data sets mark a pair on whose label people did not agree"""

_UNNAMED = "__index_level_0__"
"""What the library calls the first field of CSV rows that are longer than their header"""


def ending(path: Path) -> str:
    """The ending of a file that says its format: that before .gz."""
    return Path(path.name.removesuffix(".gz")).suffix


def columns_of(path: Path) -> list[str]:
    """The columns of a table. Raises UserError for a file that cannot be read or has no row."""
    first = next(_rows(path), None)
    if first is None:
        raise UserError(f"{path} holds no item")
    if _UNNAMED in first:
        raise UserError(f"{path}: the rows have more fields than the header")
    return list(first)


def shape_of(name: CorpusName, path: Path) -> tuple[Shape, Mapping[str, str]]:
    """The shape of a corpus, and role -> column, from its name or else from its columns.

    Raises UserError when they do not fit.
    """
    columns = columns_of(path)
    if name.columns:
        for column in name.columns.values():
            check_column(column, columns, str(path))
        return shape_of_roles(name.columns), name.columns
    return recognised(columns, str(path))


def read_table(name: CorpusName, paths: list[Path]) -> Corpus:
    """The items of the files, which have one shape.

    Raises UserError, with file and row, for a missing text and for a score or a label that is none.
    """
    shape, roles = shape_of(name, paths[0])
    texts = [role for role in ROLES[shape] if role not in ("score", "label")]
    numbers = array("d")

    def items() -> Iterator[list[str]]:
        for where, row in itertools.islice(_items(name, roles, paths), name.limit):
            yield [_text(row[roles[role]], roles[role], where) for role in texts]
            if shape == "scored pairs":
                numbers.append(_score(row[roles["score"]], where))
            elif shape == "labelled pairs":
                numbers.append(_label(row[roles["label"]], where))

    columns = text_columns(items())
    if not columns:
        raise UserError(
            f"{paths[0]} holds no item{' that the filter leaves' if name.where else ''}"
        )
    if shape == "scored pairs":
        return Corpus(columns, np.asarray(numbers, np.float32))
    labels = np.asarray(numbers, np.int64) if shape == "labelled pairs" else None
    return Corpus(columns, labels)


def _items(
    name: CorpusName, roles: Mapping[str, str], paths: list[Path]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every row that is an item, with the place of it."""
    for path in paths:
        known = columns_of(path)
        for column in (*roles.values(), *name.where):
            check_column(column, known, str(path))
        for number, row in enumerate(_rows(path), start=1):
            if any(str(row[column]) not in values for column, values in name.where.items()):
                continue
            if "label" in roles and str(row[roles["label"]]) in UNLABELLED:
                continue  # as every paper does
            yield f"{path}, row {number}", row


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a file as the library reads it."""
    with explained(f"{path} cannot be read: "):
        # Here, because its import takes a second and most corpora are read without it.
        from datasets import Features, Value, load_dataset
        from datasets.utils.logging import CRITICAL, set_verbosity

        set_verbosity(CRITICAL)  # what is wrong is in the exception
        kind = BUILDERS[ending(path)]
        options: dict[str, Any] = {}
        if kind == "csv":
            # Else the sentences "NA" and "null" would be missing, and "12" would be a number. In
            # the TSV files of the field a quotation mark is a character like others.
            tabs = ending(path) == ".tsv"
            options = {"keep_default_na": False, "sep": "\t" if tabs else ","}
            options |= {"quoting": csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL}
        files: dict[str, Any] = {"data_files": {"train": [str(path)]}, "split": "train"}
        found = load_dataset(kind, **files, streaming=True, **options)
        if kind == "csv" and (first := next(iter(found), None)):
            features = Features({column: Value("string") for column in first})
            found = load_dataset(kind, **files, streaming=True, features=features, **options)
        yield from found


def _text(value: Any, column: str, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f'{where}: column "{column}" holds {value!r}, which is no text')
    return value.strip() or " "  # an empty text is a single space, as in simcse.md, section 1.1


def _score(value: Any, where: str) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise UserError(f"{where}: the score {value!r} is no number")
    return score


def _label(value: Any, where: str) -> int:
    label = NLI_LABELS.get(str(value).lower(), value)
    if str(label) not in ("0", "1", "2"):
        raise UserError(
            f"{where}: label {value!r} is none of 0, 1, 2 (or -1, unlabelled), nor one of "
            f"{', '.join(NLI_LABELS)}"
        )
    return int(label)
