"""Sentence pairs with gold similarities: SentEval's STS files and the embedded graded pairs, and their scores."""

import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from harness.data.corpora import GRADED, SIMCSE
from harness.data.hub import data_file
from harness.errors import TrialFailure, UserError

YEARS = {
    "sts12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "sts13": ("FNWN", "headlines", "OnWN"),
    "sts14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "sts15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "sts16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}


@dataclass(frozen=True)
class Pairs:
    """A test set: first[i] and second[i] have gold similarity gold[i]."""

    first: list[str]
    second: list[str]
    gold: np.ndarray

    def __len__(self) -> int:
        return len(self.gold)


def spearman(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> float:
    """Spearman x100 of the cosines of paired rows, (n, hidden) each, against gold (n,).

    Raises TrialFailure when all cosines are equal (a constant embedding has no rank correlation).
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    squares = np.einsum("ij,ij->i", first, first) * np.einsum("ij,ij->i", second, second)
    cosines = np.einsum("ij,ij->i", first, second) / np.sqrt(np.where(squares == 0, 1, squares))
    if np.ptp(cosines) == 0:
        raise TrialFailure("all sentence pairs have the same similarity: the embedding is constant")
    return float(spearmanr(cosines, gold).statistic * 100)


def senteval() -> Path:
    """SentEval's data sets as one archive."""
    return data_file(SIMCSE, "senteval.tar")


def sts_year(name: str) -> Pairs:
    """All scored pairs of one year, its subsets concatenated (SentEval's "all"); baselines.md, 10.1."""
    first, second, gold = [], [], []
    folder = f"STS/{name.upper()}-en-test"
    for subset in YEARS[name]:
        texts = _lines(f"{folder}/STS.input.{subset}.txt")
        scores = _lines(f"{folder}/STS.gs.{subset}.txt")
        if len(texts) != len(scores):
            raise UserError(f"{senteval()}, {folder}: {subset} has {len(texts)} pairs and {len(scores)} gold scores")
        for number, (text, score) in enumerate(zip(texts, scores, strict=True), start=1):
            if not score.strip():
                continue  # SentEval drops pairs without a gold score
            where = f"{senteval()}, {folder}/STS.input.{subset}.txt"
            one, two = _fields(text, 2, where, number)[:2]
            first.append(_words(one))
            second.append(_words(two))
            gold.append(_score(score, f"{senteval()}, {folder}/STS.gs.{subset}.txt", number))
    return Pairs(first, second, np.asarray(gold))


def sts_benchmark(split: str) -> Pairs:
    """STS-B train, dev or test: score in column 5, sentences in columns 6 and 7."""
    return _table(f"STS/STSBenchmark/sts-{split}.csv", 0, (5, 6, 4))


def sick(split: str) -> Pairs:
    """SICK-R: "trial" is the dev set, "test_annotated" the test set; relatedness in column 4, a header line."""
    return _table(f"SICK/SICK_{split}.txt", 1, (1, 2, 3))


def graded(split: str) -> Pairs:
    """The embedded pairs (dev or test): score, first, second."""
    path = data_file(GRADED, f"{split}.tsv")
    return _parse(_split(path.read_text(encoding="utf-8")), str(path), 0, (1, 2, 0))


def _table(member: str, header: int, columns: tuple[int, int, int]) -> Pairs:
    return _parse(_lines(member), f"{senteval()}, {member}", header, columns)


def _parse(lines: Sequence[str], where: str, header: int, columns: tuple[int, int, int]) -> Pairs:
    first, second, gold = [], [], []
    for number, line in enumerate(lines[header:], start=1 + header):
        fields = _fields(line, max(columns) + 1, where, number)
        first.append(_words(fields[columns[0]]))
        second.append(_words(fields[columns[1]]))
        gold.append(_score(fields[columns[2]], where, number))
    return Pairs(first, second, np.asarray(gold))


def _fields(line: str, expected: int, where: str, number: int) -> list[str]:
    fields = line.split("\t")
    if len(fields) < expected:
        raise UserError(f"{where}, line {number}: {expected} tab-separated fields were expected, {len(fields)} found")
    return fields


def _score(text: str, where: str, number: int) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not np.isfinite(score):
        raise UserError(f'{where}, line {number}: the gold score "{text}" is no number')
    return score


def _words(text: str) -> str:
    return " ".join(text.split())


def _split(text: str) -> list[str]:
    """Lines as files have them: `str.splitlines` would also cut at form feeds and Unicode separators."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _lines(member: str) -> list[str]:
    """The lines of a member of SentEval's archive, wherever its folder `downstream` lies in it."""
    archive = senteval()
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                if entry.name == member or entry.name.endswith("/" + member):
                    file = tar.extractfile(entry)
                    assert file is not None, member
                    return _split(file.read().decode("utf-8"))
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{archive}, {member}: cannot be read ({error})") from None
    raise UserError(f"{archive} has no member {member}")


LOADERS: dict[str, Callable[[], Pairs]] = {
    **{name: lambda name=name: sts_year(name) for name in YEARS},  # type: ignore[misc]
    "stsb": lambda: sts_benchmark("test"),
    "sickr": lambda: sick("test_annotated"),
    "stsb-dev": lambda: sts_benchmark("dev"),
    "graded-dev": lambda: graded("dev"),
    "graded": lambda: graded("test"),
}
