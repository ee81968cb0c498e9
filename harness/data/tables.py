"""Tables become items, row by row; their texts go to disk as they come."""

import itertools
import math
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.corpus_names import CorpusName, check_column
from harness.data.readers import CONTRADICTION, ENTAILMENT, NEUTRAL, Corpus
from harness.data.rows import columns_of, rows_of, said
from harness.data.shapes import ROLES, Shape, recognised, shape_of_roles
from harness.data.texts import text_columns
from harness.errors import UserError

NLI_LABELS = {"entailment": ENTAILMENT, "neutral": NEUTRAL, "contradiction": CONTRADICTION}
UNLABELLED = ("-1", "-", "", "nan")
"""How data sets mark a pair on whose label people did not agree, or that nobody has labelled"""


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
        for where, row, label in itertools.islice(_items(name, roles, paths), name.limit):
            yield [_text(row[roles[role]], roles[role], where) for role in texts]
            if label is not None:
                numbers.append(label)
            elif shape == "scored pairs":
                numbers.append(_score(row[roles["score"]], where))

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
) -> Iterator[tuple[str, Mapping[str, Any], int | None]]:
    """Every row that is an item, with its place, and with its label where items have one."""
    for path in paths:
        known = columns_of(path)
        for column in (*roles.values(), *name.where):
            check_column(column, known, str(path))
        for number, row in enumerate(rows_of(path), start=1):
            if any(said(row[column]) not in values for column, values in name.where.items()):
                continue
            where, label = f"{path}, row {number}", None
            if "label" in roles:
                label = _label(row[roles["label"]], where)
                if label is None:
                    continue  # as every paper does
            yield where, row, label


def _text(value: Any, column: str, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f'{where}: column "{column}" holds {value!r}, which is no text')
    return value.strip() or " "  # an empty text is a single space, as in simcse.md, section 1.1


def _score(value: Any, where: str) -> float:
    score = _number(value)
    if not math.isfinite(score):
        raise UserError(f"{where}: the score {value!r} is no number")
    return score


def _label(value: Any, where: str) -> int | None:
    """A label, as a number or a word; None: the pair has none."""
    text = said(value).strip().lower()
    if text in NLI_LABELS:
        return NLI_LABELS[text]
    number = _number(value)  # pandas writes 0.0 for 0 where some labels are missing
    if text in UNLABELLED or number == -1:
        return None
    if number not in NLI_LABELS.values():
        raise UserError(
            f"{where}: label {value!r} is none of 0, 1, 2 (or -1, unlabelled), nor one of "
            f"{', '.join(NLI_LABELS)}"
        )
    return int(number)


def _number(value: Any) -> float:
    """The number that a value is or says; nan where it is none."""
    try:
        return math.nan if "_" in said(value) else float(said(value))
    except ValueError:
        return math.nan
