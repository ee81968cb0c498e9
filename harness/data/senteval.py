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
from typing import TYPE_CHECKING

from harness.data.hub import data_file
from harness.errors import UserError
from harness.files import Stamp
from harness.inputs import regular_file

if TYPE_CHECKING:
    import numpy as np

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
    labels: "np.ndarray"
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
        rows += [((words(line),), label) for line in lines(member, encoding="latin-1")]
    return Splits(all=_sorted(rows))


def sst2() -> Splits:
    """Read SST-2, whose lines are: sentence, tab, class."""
    files = {split: f"SST/binary/sentiment-{split}" for split in ("train", "dev", "test")}
    return Splits({split: _tabbed(member, 2, 1, (0,)) for split, member in files.items()})


def trec() -> Splits:
    """Read TREC, whose lines are `COARSE:fine question`, in latin-1; the coarse class counts."""
    files = {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"}
    return Splits({split: _sorted(_trec_rows(member)) for split, member in files.items()})


def mrpc() -> Splits:
    """Read MRPC, whose lines are: class, two ids, two sentences; class 1 are the paraphrases."""
    files = {split: f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")}
    return Splits(
        {split: _tabbed(member, 5, 0, (3, 4), header=1) for split, member in files.items()}
    )


def _trec_rows(member: str) -> list[LabelledRow]:
    rows, where = list[LabelledRow](), f"{archive()}, {member}"
    # TREC has a byte that is not UTF-8.
    for number, line in enumerate(lines(member, encoding="latin-1"), start=1):
        label, _, rest = line.strip().partition(":")
        _, space, text = rest.partition(" ")
        if not space:
            raise UserError(f"{where}, line {number}: no question behind a label `COARSE:fine`")
        rows.append(((words(text),), _label(label, TREC_LABELS, where, number)))
    return rows


def _tabbed(
    member: str, expected: int, label: int, texts: Sequence[int], header: int = 0
) -> Labelled:
    """Rows of two classes. label, texts: where they stand among the `expected` fields of a line."""
    rows, where = list[LabelledRow](), f"{archive()}, {member}"
    for number, line in enumerate(lines(member)[header:], start=header + 1):
        fields = fields_of(line.strip(), expected, where, number)
        sentences = tuple(words(fields[text]) for text in texts)
        rows.append((sentences, _label(fields[label], BINARY_LABELS, where, number)))
    return _sorted(rows)


def _sorted(rows: list[LabelledRow]) -> Labelled:
    import numpy as np  # a wrong name is answered without it

    # Python's sort is stable: equal rows stay in the order of their files, as in SentEval.
    rows = sorted(rows, key=lambda row: (*(len(text.split()) for text in row[0]), row[1]))
    texts = list(zip(*(row[0] for row in rows), strict=True))
    return Labelled(
        list(texts[0]),
        np.asarray([row[1] for row in rows]),
        list(texts[1]) if len(texts) > 1 else None,
    )


def fields_of(
    line: str, expected: int, where: str, number: int, *, more: bool = False
) -> list[str]:
    """Split line `number` of the file `where` at tabs.

    more: whether further fields are allowed. Raises UserError when it has not the expected number.
    """
    fields = line.split("\t")
    if len(fields) < expected or (len(fields) > expected and not more):
        raise UserError(
            f"{where}, line {number}: {expected} tab-separated fields were expected, "
            f"{len(fields)} found"
        )
    return fields


def _label(text: str, valid: Sequence[str], where: str, number: int) -> int:
    if text.strip() not in valid:
        raise UserError(f'{where}, line {number}: the class "{text}" is none of {", ".join(valid)}')
    return valid.index(text.strip())


def words(text: str) -> str:
    """The words of a sentence with single spaces between them, as SentEval reads it."""
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
