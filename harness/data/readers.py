"""How files become items: sentences, NLI triplets, NLI pairs, neighbouring sentences.

A reader takes the files of a corpus and gives a `Corpus`. Its name is part of the keys of caches
and artefacts, because two corpora may read the same files and have different items.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.lines import text_lines
from harness.data.rows import number_of, rows, spelt
from harness.data.senteval import lines
from harness.data.texts import text_columns
from harness.errors import UserError

ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
"""Labels of NLI pairs"""
NLI_LABELS = {"entailment": ENTAILMENT, "neutral": NEUTRAL, "contradiction": CONTRADICTION}
UNLABELLED = ("-", "", "nan")
"""How data sets mark a pair on whose label people did not agree, beside -1"""


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
    columns = text_columns((line.strip() or " ",) for path in paths for line in text_lines(path))
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
            premise, hypothesis, given = (row.get(name) for name in names)
            label = nli_label(given, where)
            if not (isinstance(premise, str) and isinstance(hypothesis, str)):
                raise UserError(f"{where}: the premise or the hypothesis is missing")
            if label is not None:
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
        for pair in itertools.pairwise(line.strip() for line in text_lines(path))
        if all(pair)  # an empty line ends a document, so it is part of no pair
    )
    if not columns:
        raise UserError(f"{paths[0]} holds no two sentences in a row")
    return Corpus(columns)
