"""Sentence pairs with gold similarities: SentEval's STS files and the embedded graded pairs.

The sets are described in evaluation_protocol.md, section 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, starmap

import numpy as np

from harness.data.corpora import GRADED
from harness.data.hub import data_file
from harness.data.senteval import archive, fields_of, lines, split_lines, words
from harness.errors import UserError
from harness.inputs import read_text

YEARS = {
    "sts12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "sts13": ("FNWN", "headlines", "OnWN"),
    "sts14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "sts15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "sts16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""Task -> the subsets of that year, in SentEval's order"""


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs: first[i] and second[i] have the gold similarity gold[i]."""

    first: list[str]
    second: list[str]
    gold: np.ndarray
    """(pairs,); 0 to 5, and 1 to 5 for SICK-R"""
    subsets: dict[str, int] = field(default_factory=dict)
    """Subset -> its number of pairs; the subsets of a year follow one another in this order.

    Other sets have none."""

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def texts(self) -> list[str]:
        """All first sentences, then all second ones."""
        return [*self.first, *self.second]

    def parts(self) -> dict[str, slice]:
        """Subset -> where its pairs are."""
        stops = np.cumsum([0, *self.subsets.values()]).tolist()
        return dict(zip(self.subsets, starmap(slice, pairwise(stops)), strict=True))


def sts_year(name: str) -> Pairs:
    """All scored pairs of one year, subset after subset (SentEval's "all").

    `name`: a key of `YEARS`. Raises UserError for a file that is missing or damaged.
    """
    first, second, gold = [], [], []
    subsets: dict[str, int] = {}
    folder = f"STS/{name.upper()}-en-test"
    where = f"{archive()}, {folder}"  # once, as mirrors are asked for it
    for subset in YEARS[name]:
        texts = lines(f"{folder}/STS.input.{subset}.txt")
        scores = lines(f"{folder}/STS.gs.{subset}.txt")
        if len(texts) != len(scores):
            raise UserError(
                f"{where}: {subset} has {len(texts)} pairs and {len(scores)} gold scores"
            )
        for number, (text, score) in enumerate(zip(texts, scores, strict=True), start=1):
            # SentEval drops the pairs that have no gold score.
            if not score.strip():
                continue
            one, two = fields_of(text, 2, f"{where}/STS.input.{subset}.txt", number)
            first.append(words(one))
            second.append(words(two))
            gold.append(_score(score, f"{where}/STS.gs.{subset}.txt", number))
        subsets[subset] = len(gold) - sum(subsets.values())
    return Pairs(first, second, np.asarray(gold), subsets)


def sts_benchmark(split: str) -> Pairs:
    """STS-B train, dev or test: the score is in column 5, the sentences are in columns 6 and 7."""
    return _table(f"STS/STSBenchmark/sts-{split}.csv", 0, (5, 6, 4))


def sick(split: str) -> Pairs:
    """SICK-R train, trial (which is its dev set) or test_annotated.

    The relatedness is in column 4, the sentences are in columns 2 and 3, and there is a header.
    """
    return _table(f"SICK/SICK_{split}.txt", 1, (1, 2, 3))


def graded_pairs(split: str) -> Pairs:
    """The embedded pairs, dev or test; the columns are score, first and second sentence."""
    path = data_file(GRADED, f"{split}.tsv")
    return _parse(split_lines(read_text(path)), str(path), 0, (1, 2, 0))


def _table(member: str, header: int, columns: tuple[int, int, int]) -> Pairs:
    return _parse(lines(member), f"{archive()}, {member}", header, columns)


def _parse(lines: Sequence[str], where: str, header: int, columns: tuple[int, int, int]) -> Pairs:
    """Read a table.

    `header`: its number of header lines. `columns`: the numbers, from 0, of the columns with the
    first sentence, the second sentence and the score.
    """
    first, second, gold = [], [], []
    for number, line in enumerate(lines[header:], start=1 + header):
        # Some copies of STS-B have the sources of the sentences in further fields.
        fields = fields_of(line, max(columns) + 1, where, number, more=True)
        first.append(words(fields[columns[0]]))
        second.append(words(fields[columns[1]]))
        gold.append(_score(fields[columns[2]], where, number))
    return Pairs(first, second, np.asarray(gold))


def _score(text: str, where: str, number: int) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    # float() also reads "nan" and "inf", with which there is no correlation.
    if not np.isfinite(score):
        raise UserError(f'{where}, line {number}: the gold score "{text}" is no number')
    return score


LOADERS: dict[str, Callable[[], Pairs]] = {
    **{name: partial(sts_year, name) for name in YEARS},
    "stsb": partial(sts_benchmark, "test"),
    "sickr": partial(sick, "test_annotated"),
    "stsb-dev": partial(sts_benchmark, "dev"),
    "sickr-dev": partial(sick, "trial"),
    "graded-dev": partial(graded_pairs, "dev"),
    "graded": partial(graded_pairs, "test"),
}
"""Task -> the function that reads its pairs"""
