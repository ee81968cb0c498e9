"""Readers that make items of files: sentences, NLI triplets and pairs, neighbours, and tables.

A reader takes the files of a corpus and gives a `Corpus`. Its name is part of the keys of caches
and artefacts, because two corpora may read the same files and have different items. Texts go to
disk as they are read, so that a corpus may be larger than memory.
"""

import itertools
import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.rows import TableRow, columns_of, number_of, rows, spelt, text_lines
from harness.data.senteval import lines
from harness.data.shapes import ROLES, CorpusName, Shape, check_column, recognised, shape_of_roles
from harness.data.texts import text_columns
from harness.errors import UserError

if TYPE_CHECKING:
    import numpy as np

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
"""Labels of NLI pairs"""
NLI_LABELS = {"entailment": ENTAILMENT, "neutral": NEUTRAL, "contradiction": CONTRADICTION}
UNLABELLED = ("-", "", "nan")
"""Marks of a pair on whose label people did not agree, beside -1"""


@dataclass(frozen=True)
class Corpus:
    """Items of one, two or three texts each."""

    columns: tuple[Sequence[str], ...]
    """The first texts of all items, their second texts, and so on; on disk where they are many"""
    labels: "np.ndarray | None" = None
    """(items,): the label or the score of each item; None: the corpus has neither"""

    def __len__(self) -> int:
        return len(self.columns[0])


def numbers_of(values: Sequence[float], kind: str) -> "np.ndarray":
    import numpy as np  # a wrong name is answered without it

    return np.asarray(values, kind)


def read_sentences(paths: list[Path]) -> Corpus:
    """Read one sentence a line; an empty line is a single space (simcse.md, section 1.1).

    Raises UserError when the files hold no sentence or are not UTF-8.
    """
    sentences = ((line.strip() or " ",) for path in paths for line in text_lines(path))
    return Corpus(text_columns(sentences, f"{paths[0]} holds no sentence"))


def read_triplets(paths: list[Path]) -> Corpus:
    """Read triplets from CSV with a header; the columns are premise, entailment, contradiction.

    SimCSE calls them sent0, sent1 and hard_neg. Raises UserError with the line that has not three
    fields, and when the files hold no triplet.
    """
    triplets = itertools.chain.from_iterable(map(_triplets, paths))
    return Corpus(text_columns(triplets, f"{paths[0]} holds no triplet"))


def _triplets(path: Path) -> Iterator[list[str]]:
    for where, row in rows(path):
        if len(row) != 3:
            raise UserError(
                f"{where}: 3 columns (sent0,sent1,hard_neg) were expected, {len(row)} found"
            )
        yield [text.strip() or " " for text in row.values()]


def nli_label(value: Any, where: str) -> int | None:
    """The label of a pair: 0, 1, 2 or its word; None: it has no label, as -1, `-` or nothing says.

    `where`: the place of the pair. Raises UserError for anything else.
    """
    text = spelt(value).strip().lower()
    if text in UNLABELLED:
        return None
    label = NLI_LABELS.get(text, number_of(text))
    if label not in (-1, *NLI_LABELS.values()):
        raise UserError(
            f"{where}: label {str(value)!r} is none of 0, 1, 2 (or -1, unlabelled), nor one of "
            f"{', '.join(NLI_LABELS)}"
        )
    return int(label) if label >= 0 else None


def read_nli_pairs(paths: list[Path]) -> Corpus:
    """Read labelled pairs from Parquet with the columns premise, hypothesis and label.

    Labels are 0 (entailment), 1 (neutral) and 2 (contradiction). Pairs without a gold label
    are left out, as every paper does. Raises UserError for a file that cannot be read and for any
    other label.
    """
    names = ("premise", "hypothesis", "label")
    premises: list[str] = []
    hypotheses: list[str] = []
    labels: list[int] = []
    for path in paths:
        for where, row in rows(path, names):
            premise, hypothesis, gold = (row.get(name) for name in names)
            label = nli_label(gold, where)
            if not (isinstance(premise, str) and isinstance(hypothesis, str)):
                raise UserError(f"{where}: the premise or the hypothesis is missing")
            if label is not None:
                premises.append(premise)
                hypotheses.append(hypothesis)
                labels.append(label)
    return Corpus((premises, hypotheses), numbers_of(labels, "int64"))


def read_entailments(paths: list[Path]) -> Corpus:
    """Read the entailed pairs among NLI pairs, without their labels (clsr.md, section 3)."""
    pairs = read_nli_pairs(paths)
    assert pairs.labels is not None
    return _chosen(pairs, pairs.labels == ENTAILMENT)


def _chosen(pairs: Corpus, chosen: "np.ndarray") -> Corpus:
    """Some of the pairs, without labels. chosen: (items,) bool."""
    return Corpus(tuple(list(itertools.compress(column, chosen)) for column in pairs.columns))


def read_similar_pairs(paths: list[Path]) -> Corpus:
    """Read the training pairs of STS-B with a score of 4 or more (clsr.md, section 3)."""
    pairs = read_scored_pairs(paths)
    assert pairs.labels is not None
    # The paper says "higher than 4", but its 1,406 pairs are those from 4 on.
    return _chosen(pairs, pairs.labels >= 4)


def read_scored_pairs(paths: list[Path]) -> Corpus:
    """Read the training pairs of STS-B with their scores from 0 to 5 (scored_pairs.md)."""
    fields = [line.split("\t") for line in lines("STS/STSBenchmark/sts-train.csv", paths[0])]
    scores = numbers_of([float(row[4]) for row in fields], "float32")
    return Corpus(([row[5] for row in fields], [row[6] for row in fields]), scores)


def read_triplets_as_pairs(paths: list[Path]) -> Corpus:
    """Read triplets as labelled pairs; the premise of the next triplet is the neutral hypothesis.

    The items are all entailed pairs, then all neutral ones, then all contradictions.
    """
    premises, entailments, contradictions = map(list, read_triplets(paths).columns)
    hypotheses = (entailments, [*premises[1:], premises[0]], contradictions)
    labels = [label for label in NLI_LABELS.values() for _ in premises]
    texts = [text for column in hypotheses for text in column]
    return Corpus((premises * 3, texts), numbers_of(labels, "int64"))


def read_triplets_as_scored_pairs(paths: list[Path]) -> Corpus:
    """Read triplets as scored pairs: entailed ones have the score 5, contradictions have 0.

    The items are all entailed pairs, then all contradictions.
    """
    premises, entailments, contradictions = map(list, read_triplets(paths).columns)
    scores = [score for score in (5, 0) for _ in premises]
    return Corpus((premises * 2, [*entailments, *contradictions]), numbers_of(scores, "float32"))


def read_neighbours(paths: list[Path]) -> Corpus:
    """Read running text as pairs of a sentence and the one after it (diffcse.md, section 2).

    Each line is a sentence, and an empty line stands between two documents. Raises UserError when
    no two sentences follow one another.
    """
    pairs = (
        pair
        for path in paths
        for pair in itertools.pairwise(line.strip() for line in text_lines(path))
        if all(pair)  # an empty line ends a document, so it is part of no pair
    )
    return Corpus(text_columns(pairs, f"{paths[0]} holds no two sentences in a row"))


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
            yield [text_of(row.get(roles[role]), roles[role], where) for role in texts]

    left = " that the filter leaves" if name.where else ""
    columns = text_columns(items(), f"{paths[0]} holds no item{left}")
    if shape == "scored pairs":
        return Corpus(columns, numbers_of(numbers, "float32"))
    labels = numbers_of(numbers, "int64") if shape == "labelled pairs" else None
    return Corpus(columns, labels)


def _items(
    name: CorpusName, roles: Mapping[str, str], paths: list[Path]
) -> Iterator[tuple[str, TableRow, float | None]]:
    """Every row that is an item, with the place of it and its score or label."""
    score, label = roles.get("score"), roles.get("label")
    used = [*roles.values(), *name.where]
    for path in paths:
        header = columns_of(path)
        for column in used:
            check_column(column, header, str(path))
        for where, row in rows(path, used):
            if any(spelt(row.get(column)) not in values for column, values in name.where.items()):
                continue
            if score is not None:
                yield where, row, _score(row.get(score), where)
            elif label is None:
                yield where, row, None
            elif (number := nli_label(row.get(label), where)) is not None:
                yield where, row, number


def text_of(value: Any, column: str, where: str) -> str:
    """The text in a column of a row; an empty one is a single space (simcse.md, section 1.1).

    `where`: the place of the row. Raises UserError for a missing value and for what is no text.
    """
    if value is None:
        raise UserError(f'{where}: column "{column}" is missing')
    if type(value) is not str:  # a number of JSON is one of its subclass
        raise UserError(f'{where}: column "{column}" holds {value}, which is no text')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UserError(f'{where}: column "{column}" holds half of a character') from None
    return value.strip() or " "


def _score(value: Any, where: str) -> float:
    if value is None:
        raise UserError(f"{where}: the score is missing")
    score = number_of(value)
    if not math.isfinite(score):
        raise UserError(f"{where}: the score {str(value)!r} is no number")
    return score
