"""Tables become items: the rows of a file in any format (harness.data.rows), row by row.

Rows stream, and texts go to disk as they come, so a table may be larger than memory.
"""

import itertools
import math
import re
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.corpus_names import CorpusName, check_column
from harness.data.readers import Corpus, nli_label
from harness.data.rows import TableRow, columns_of, number_of, rows, spelt
from harness.data.shapes import ROLES, Shape, recognised, shape_of_roles
from harness.data.texts import text_columns
from harness.errors import UserError

INDEX = re.compile(r"|__index_level_\d+__|Unnamed: \d+")
"""The names of the columns that pandas makes of the numbers of rows"""


def shape_of(name: CorpusName, path: Path) -> tuple[Shape, Mapping[str, str]]:
    """The shape of a corpus, and role -> column, from its name or else from its columns.

    Raises UserError when they do not fit.
    """
    columns = columns_of(path)
    if name.columns:
        for column in name.columns.values():
            check_column(column, columns, str(path))
        return shape_of_roles(name.columns), name.columns
    return recognised([each for each in columns if not INDEX.fullmatch(each)], str(path))


def read_table(name: CorpusName, paths: list[Path]) -> Corpus:
    """The items of the files, which have one shape.

    Pairs without a label are left out. Raises UserError, with file and place, for a missing text
    and for a score or a label that is none.
    """
    shape, roles = shape_of(name, paths[0])
    texts = [role for role in ROLES[shape] if role not in ("score", "label")]
    numbers = array("d")

    def items() -> Iterator[list[str]]:
        for where, row, number in itertools.islice(_items(name, roles, paths), name.limit):
            if number is not None:
                numbers.append(number)
            yield [_text(row.get(roles[role]), roles[role], where) for role in texts]

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
) -> Iterator[tuple[str, TableRow, float | None]]:
    """Every row that is an item, with the place of it and its score or label."""
    score, label = roles.get("score"), roles.get("label")
    used = [*roles.values(), *name.where]
    for path in paths:
        known = columns_of(path)
        for column in used:
            check_column(column, known, str(path))
        for where, row in rows(path, used):
            if any(spelt(row.get(column)) not in values for column, values in name.where.items()):
                continue
            if score is not None:
                yield where, row, _score(row.get(score), where)
            elif label is None:
                yield where, row, None
            elif (number := nli_label(row.get(label), where)) is not None:
                yield where, row, number


def _text(value: Any, column: str, where: str) -> str:
    if value is None:
        raise UserError(f'{where}: column "{column}" is missing')
    if type(value) is not str:  # a number of JSON is one of its subclass
        raise UserError(f'{where}: column "{column}" holds {value}, which is no text')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UserError(f'{where}: column "{column}" holds half of a character') from None
    return value.strip() or " "  # an empty text is a single space, as in simcse.md, section 1.1


def _score(value: Any, where: str) -> float:
    if value is None:
        raise UserError(f"{where}: the score is missing")
    score = number_of(value)
    if not math.isfinite(score):
        raise UserError(f"{where}: the score {str(value)!r} is no number")
    return score
