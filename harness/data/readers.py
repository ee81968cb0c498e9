"""How files become items: sentences, NLI triplets, NLI pairs, neighbouring sentences.

A reader takes the files of a corpus and gives a `Corpus`. Its name is part of the keys of caches
and artefacts, because two corpora may read the same files and have different items.
"""

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.data.senteval import lines
from harness.data.texts import text_columns
from harness.errors import UserError

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
"""Labels of NLI pairs"""


@dataclass(frozen=True)
class Corpus:
    """Items of one, two or three texts each."""

    columns: tuple[Sequence[str], ...]
    """The first texts of all items, their second texts, and so on; on disk where they are many"""
    labels: np.ndarray | None = None
    """(items,): the label or the score of each item; None: the corpus has neither"""

    def __len__(self) -> int:
        return len(self.columns[0])


def read_sentences(paths: list[Path]) -> Corpus:
    """Read one sentence a line; an empty line is a single space (simcse.md, section 1.1).

    Raises UserError when the files hold no sentence or are not UTF-8.
    """
    columns = text_columns(
        (line.strip() or " ",)
        for path in paths
        for line in _lines(path)
        if line.endswith("\n") or line.strip()  # blanks behind the last line end are no sentence
    )
    if not columns:
        raise UserError(f"{paths[0]} holds no sentence")
    return Corpus(columns)


def read_triplets(paths: list[Path]) -> Corpus:
    """Read triplets from CSV with a header; the columns are premise, entailment, contradiction.

    SimCSE calls them sent0, sent1 and hard_neg. Raises UserError with the line that has not three
    fields, and when the files hold no triplet.
    """
    columns = text_columns(triplet for path in paths for triplet in _triplets(path))
    if not columns:
        raise UserError(f"{paths[0]} holds no triplet")
    return Corpus(columns)


def _triplets(path: Path) -> Iterator[list[str]]:
    # A stream cuts at line ends only: str.splitlines would also cut at form feeds.
    parts = (part for line in _lines(path) for part in io.StringIO(line, newline=""))
    reader = csv.reader(parts)
    try:
        header = next(reader, [])
        if len(header) != 3:
            raise UserError(
                f"{path}, line 1: a header of 3 columns (sent0,sent1,hard_neg) was expected"
            )
        for row in reader:
            if len(row) != 3:
                raise UserError(
                    f"{path}, line {reader.line_num}: 3 fields were expected, {len(row)} found"
                )
            yield [text.strip() or " " for text in row]
    # Such as a quote that never ends: it reaches the csv module's longest field.
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}") from None


def is_triplet_file(path: Path) -> bool:
    """Whether a CSV file has the header of SimCSE's triplets, or no whole header at all."""
    with path.open("rb") as file:
        header = file.readline().strip().decode("utf-8", "replace").split(",")
    return header == [""] or header[0] == "sent0"


def read_nli_pairs(paths: list[Path]) -> Corpus:
    """Read labelled pairs from Parquet with the columns premise, hypothesis and label.

    Labels are 0 (entailment), 1 (neutral) and 2 (contradiction). Pairs without a gold label (-1)
    are left out, as every paper does. Raises UserError for a file that cannot be read and for any
    other label.
    """
    # Its import takes 0.1 s, and no other reader needs it.
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.types import is_integer, is_large_string, is_string

    def is_text(kind: pa.DataType) -> bool:
        return bool(is_string(kind) or is_large_string(kind))

    premises: list[str] = []
    hypotheses: list[str] = []
    labels: list[int] = []
    for path in paths:
        try:
            table = pq.read_table(path, columns=["premise", "hypothesis", "label"])
        except (pa.ArrowException, OSError) as error:
            raise UserError(
                f"{path} cannot be read as NLI pairs: {str(error).splitlines()[0]}"
            ) from None
        for name, wanted in (("premise", is_text), ("hypothesis", is_text), ("label", is_integer)):
            if not wanted(table.schema.field(name).type):
                raise UserError(
                    f"{path}: column {name} has the type {table.schema.field(name).type}; premise "
                    f"and hypothesis are texts, and label is a whole number"
                )
        rows = zip(*table.to_pydict().values(), strict=True)
        for number, (premise, hypothesis, label) in enumerate(rows, start=1):
            if label not in (-1, 0, 1, 2):
                raise UserError(
                    f"{path}, row {number}: label {label!r} is none of 0, 1, 2 (or -1, unlabelled)"
                )
            if premise is None or hypothesis is None:
                raise UserError(f"{path}, row {number}: the premise or the hypothesis is missing")
            if label >= 0:
                premises.append(premise)
                hypotheses.append(hypothesis)
                labels.append(label)
    return Corpus((premises, hypotheses), np.asarray(labels))


def read_entailments(paths: list[Path]) -> Corpus:
    """Read the entailed pairs among NLI pairs, without their labels (clsr.md, section 3)."""
    pairs = read_nli_pairs(paths)
    assert pairs.labels is not None
    chosen = pairs.labels == ENTAILMENT
    return Corpus(tuple(list(itertools.compress(column, chosen)) for column in pairs.columns))


def read_similar_pairs(paths: list[Path]) -> Corpus:
    """Read the training pairs of STS-B with a score of 4 or more (clsr.md, section 3)."""
    fields = [line.split("\t") for line in lines("STS/STSBenchmark/sts-train.csv", paths[0])]
    # The paper says "higher than 4", but its 1,406 pairs are those from 4 on.
    similar = [row for row in fields if float(row[4]) >= 4]
    return Corpus(([row[5] for row in similar], [row[6] for row in similar]))


def read_scored_pairs(paths: list[Path]) -> Corpus:
    """Read the training pairs of STS-B with their scores from 0 to 5 (scored_pairs.md)."""
    fields = [line.split("\t") for line in lines("STS/STSBenchmark/sts-train.csv", paths[0])]
    scores = np.asarray([float(row[4]) for row in fields], np.float32)
    return Corpus(([row[5] for row in fields], [row[6] for row in fields]), scores)


def read_triplets_as_pairs(paths: list[Path]) -> Corpus:
    """Read triplets as labelled pairs; the premise of the next triplet is the neutral hypothesis.

    The items are all entailed pairs, then all neutral ones, then all contradictions.
    """
    premises, entailments, contradictions = map(list, read_triplets(paths).columns)
    hypotheses = (entailments, [*premises[1:], premises[0]], contradictions)
    labels = np.repeat([ENTAILMENT, NEUTRAL, CONTRADICTION], len(premises))
    return Corpus((premises * 3, [text for column in hypotheses for text in column]), labels)


def read_triplets_as_scored_pairs(paths: list[Path]) -> Corpus:
    """Read triplets as scored pairs: entailed ones have the score 5, contradictions have 0.

    The items are all entailed pairs, then all contradictions.
    """
    premises, entailments, contradictions = map(list, read_triplets(paths).columns)
    scores = np.repeat(np.asarray([5, 0], np.float32), len(premises))
    return Corpus((premises * 2, [*entailments, *contradictions]), scores)


def read_neighbours(paths: list[Path]) -> Corpus:
    """Read running text as pairs of a sentence and the one after it (diffcse.md, section 2).

    Each line is a sentence, and an empty line stands between two documents. Raises UserError when
    no two sentences follow one another.
    """
    columns = text_columns(
        pair
        for path in paths
        for pair in itertools.pairwise(line.strip() for line in _lines(path))
        if all(pair)  # an empty line ends a document, so it is part of no pair
    )
    if not columns:
        raise UserError(f"{paths[0]} holds no two sentences in a row")
    return Corpus(columns)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file, with their ends. Raises UserError with the line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise UserError(f"{path}, line {number}: not UTF-8 text") from None
            yield text.replace("\r\n", "\n")
