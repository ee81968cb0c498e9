"""SentEval's data sets: one tar archive, and the seven classification tasks in it.

The tasks have texts, labels and order as SentEval's own readers do (evaluation_protocol.md,
section 2).
"""

import functools
import io
import itertools
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.data.hub import data_file
from harness.errors import UserError
from harness.files import Stamp
from harness.inputs import regular_file

SIMCSE = "princeton-nlp/datasets-for-simcse"
ARCHIVE = "senteval.tar"
LARGEST_MEMBER = 2**28
"""Bytes of a member that are read; the largest of SentEval has 4 million"""
MOST_MEMBERS = 100_000
"""Members of an archive; SentEval's has some hundred"""


class _Bounded(io.FileIO):
    """A file of which nobody reads more at once than the largest member has."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to `size` bytes. Raises TarError for more, which also a damaged header may ask for."""
        if size is None or not 0 <= size <= LARGEST_MEMBER:
            raise tarfile.TarError(f"it asks for {size} bytes; at most {LARGEST_MEMBER} are read")
        return super().read(size)


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """The archive, which is not packed: what is packed could hold any number of bytes."""
    with _Bounded(path) as file, tarfile.open(fileobj=file, mode="r:") as tar:
        yield tar


def archive() -> Path:
    """The path of the archive. Raises UserError when neither mirror nor Hub has it."""
    return data_file(SIMCSE, ARCHIVE)


def lines(member: str, path: Path | None = None, encoding: str = "utf-8") -> list[str]:
    """The lines of one member of the archive, such as `MR/rt-polarity.pos`.

    It does not matter in which folder the member lies; in SentEval's own archive that is
    `downstream`. `path`: the archive; None: `archive()`. Raises UserError when the archive or the
    member is missing or damaged.
    """
    path = regular_file(path or archive())
    try:
        entries, damage = _contents(Stamp.of(path))
        for entry in entries:
            if entry.name == member or entry.name.endswith("/" + member):
                if not 0 <= entry.size <= LARGEST_MEMBER:
                    raise UserError(
                        f"{path}, {member}: it has {entry.size} bytes; at most {LARGEST_MEMBER} "
                        f"are read"
                    )
                with _opened(path) as tar:
                    file = tar.extractfile(entry)
                    if file is None:
                        raise UserError(f"{path}, {member}: it is no file")
                    return split_lines(file.read().decode(encoding))
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        damage = str(error)
    # A member that was not found may lie behind the damage.
    if damage:
        raise UserError(f"{path}, {member}: cannot be read ({damage})")
    raise UserError(f"{path} has no member {member}")


@functools.lru_cache(maxsize=4)
def _contents(archive: Stamp) -> tuple[list[tarfile.TarInfo], str]:
    """The headers of all members, and the error that ended their reading, if there was one.

    Members in front of a damage stay readable. A new file at the same path has another stamp.
    """
    # A tar archive has no index. Without the cache, every member would cost a pass over all of it.
    entries: list[tarfile.TarInfo] = []
    try:
        with _opened(Path(archive.path)) as tar:
            for entry in itertools.islice(tar, MOST_MEMBERS):
                entries.append(entry)
            if tar.next() is not None:
                return entries, f"it has more than {MOST_MEMBERS} members"
    # ValueError: numbers in a header that are none.
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        return entries, str(error)
    return entries, ""


def split_lines(text: str) -> list[str]:
    """The lines of a file's text, cut at line ends only."""
    # `str.splitlines` would also cut at form feeds and at Unicode separators.
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


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
        problem = f"{expected} tab-separated fields were expected, {len(fields)} found"
        raise UserError(f"{_place(member, number)}: {problem}")
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
