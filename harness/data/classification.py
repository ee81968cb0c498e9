"""SentEval's seven classification tasks: texts, labels and order as its own readers have them.

The tasks are described in evaluation_protocol.md, section 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.data.senteval import archive, lines
from harness.errors import UserError

# Classes are numbered from 0 in this order, as in SentEval.
TREC_LABELS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
BINARY_LABELS = ("0", "1")


@dataclass(frozen=True)
class Labelled:
    """Texts, or pairs of texts, each with a class.

    The rows are sorted by their number of words and then by class, as SentEval sorts them before it
    draws folds: the order decides which row is in which fold. A blank line of a file is an empty
    text, because SentEval keeps it.
    """

    texts: list[str]
    labels: np.ndarray
    """(rows,): the class of each row, from 0"""
    second: list[str] | None = None
    """The second texts of a task on pairs; None: the task is on single texts"""

    def __len__(self) -> int:
        return len(self.labels)


class Splits(dict[str, Labelled]):
    """Name of a split -> its rows.

    A task has either `all`, which is cross-validated, or `train` and `test`, and some also `dev`.
    """

    @property
    def texts(self) -> list[str]:
        """Every text, split by split; of pairs, all first texts before all second texts."""
        return [text for rows in self.values() for text in (*rows.texts, *(rows.second or ()))]


LabelledRow = tuple[tuple[str, ...], int]
"""The texts of a row (one, or a pair), and its class"""


def polar(positive: str, negative: str) -> Splits:
    """Read MR, CR, SUBJ or MPQA from the archive's members `positive` and `negative`.

    Each has one sentence on a line, in latin-1. The sentences of `positive` are class 1.
    """
    rows: list[LabelledRow] = []
    for member, label in ((positive, 1), (negative, 0)):
        rows += [((_words(line),), label) for line in lines(member, encoding="latin-1")]
    return Splits(all=_sorted(rows))


def sst2() -> Splits:
    """Read SST-2, whose lines are: sentence, tab, class."""
    return Splits(
        {
            split: _sorted(_sst_rows(f"SST/binary/sentiment-{split}"))
            for split in ("train", "dev", "test")
        }
    )


def trec() -> Splits:
    """Read TREC, whose lines are `COARSE:fine question`, in latin-1; the coarse class counts."""
    files = {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"}
    return Splits({split: _sorted(_trec_rows(member)) for split, member in files.items()})


def mrpc() -> Splits:
    """Read MRPC, whose lines are: class, two ids, two sentences; class 1 are the paraphrases."""
    return Splits(
        {
            split: _sorted(_mrpc_rows(f"MRPC/msr_paraphrase_{split}.txt"))
            for split in ("train", "test")
        }
    )


def _sst_rows(member: str) -> list[LabelledRow]:
    rows: list[LabelledRow] = []
    for number, line in enumerate(lines(member), start=1):
        text, label = _fields(line, 2, member, number)
        rows.append(((_words(text),), _label(label, BINARY_LABELS, member, number)))
    return rows


def _trec_rows(member: str) -> list[LabelledRow]:
    rows: list[LabelledRow] = []
    # TREC has a byte that is not UTF-8.
    for number, line in enumerate(lines(member, encoding="latin-1"), start=1):
        label, _, rest = line.strip().partition(":")
        _, space, text = rest.partition(" ")
        if not space:
            raise UserError(f"{_place(member, number)}: no question behind a label `COARSE:fine`")
        rows.append(((_words(text),), _label(label, TREC_LABELS, member, number)))
    return rows


def _mrpc_rows(member: str) -> list[LabelledRow]:
    rows: list[LabelledRow] = []
    for number, line in enumerate(lines(member)[1:], start=2):  # line 1 is a header
        label, _, _, one, two = _fields(line, 5, member, number)
        rows.append(((_words(one), _words(two)), _label(label, BINARY_LABELS, member, number)))
    return rows


def _sorted(rows: list[LabelledRow]) -> Labelled:
    # Python's sort is stable: equal rows stay in the order of their files, as in SentEval.
    rows = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    texts = list(zip(*(row[0] for row in rows), strict=True))
    return Labelled(
        list(texts[0]),
        np.asarray([row[1] for row in rows]),
        list(texts[1]) if len(texts) > 1 else None,
    )


def _fields(line: str, expected: int, member: str, number: int) -> list[str]:
    fields = line.strip().split("\t")
    if len(fields) != expected:
        found = f"{expected} tab-separated fields were expected, {len(fields)} found"
        raise UserError(f"{_place(member, number)}: {found}")
    return fields


def _label(text: str, valid: Sequence[str], member: str, number: int) -> int:
    if text.strip() not in valid:
        raise UserError(
            f'{_place(member, number)}: the class "{text}" is none of {", ".join(valid)}'
        )
    return valid.index(text.strip())


def _place(member: str, number: int) -> str:
    return f"{archive()}, {member}, line {number}"


def _words(text: str) -> str:
    # SentEval splits sentences at white space and joins the words with single spaces.
    return " ".join(text.split())


DATASETS: dict[str, Callable[[], Splits]] = {
    "mr": lambda: polar("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
    "cr": lambda: polar("CR/custrev.pos", "CR/custrev.neg"),
    # SentEval counts the objective sentences as class 1.
    "subj": lambda: polar("SUBJ/subj.objective", "SUBJ/subj.subjective"),
    "mpqa": lambda: polar("MPQA/mpqa.pos", "MPQA/mpqa.neg"),
    "sst2": sst2,
    "trec": trec,
    "mrpc": mrpc,
}
"""Task -> the function that reads it"""
