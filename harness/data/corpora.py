"""Training corpora by name or file: unlabelled sentences, NLI triplets, NLI pairs."""

import csv
import functools
import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.data.hub import data_file
from harness.data.senteval import ARCHIVE, SIMCSE, lines
from harness.errors import UserError, suggest

GRADED = "harness/graded-sentences"
ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
"""Labels of NLI pairs"""


@dataclass(frozen=True)
class Corpus:
    """Items of one, two or three texts each, column by column, and a label per item where there is one."""

    columns: tuple[list[str], ...]
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass(frozen=True)
class Source:
    """Where a named corpus lies and how it is read."""

    files: tuple[tuple[str, str], ...]
    """(repository, file)"""
    read: Callable[[list[Path]], Corpus]
    items: int | None = None
    """Published number of items, for plans made before the file is here."""
    labelled: bool = False
    """Whether people labelled it, so that a share of the labels is a share of its items"""

    def paths(self, *, download: bool = True) -> list[Path]:
        """The corpus's files. Raises UserError when one is neither in the mirror nor on the Hub."""
        return [data_file(repository, name, download=download) for repository, name in self.files]


def read_sentences(paths: list[Path]) -> Corpus:
    """One sentence a line; an empty line is a single space, as in SimCSE's code."""
    lines: list[str] = []
    for path in paths:
        lines.extend(line.strip() or " " for line in _text(path).split("\n"))
        if lines and lines[-1] == " ":
            lines.pop()  # the file's last line end
    if not lines:
        raise UserError(f"{paths[0]} holds no sentence")
    return Corpus((lines,))


def read_triplets(paths: list[Path]) -> Corpus:
    """CSV with a header and the columns premise, entailment, contradiction (SimCSE's sent0, sent1, hard_neg)."""
    columns: tuple[list[str], ...] = ([], [], [])
    for path in paths:
        reader = csv.reader(
            io.StringIO(_text(path), newline="")
        )  # str.splitlines would cut at form feeds, too
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
                for column, text in zip(columns, row, strict=True):
                    column.append(text.strip() or " ")
        except csv.Error as error:
            raise UserError(f"{path}, line {reader.line_num}: {error}") from None
    if not columns[0]:
        raise UserError(f"{paths[0]} holds no triplet")
    return Corpus(columns)


def read_nli_pairs(paths: list[Path]) -> Corpus:
    """Parquet with premise, hypothesis, label (0 entailment, 1 neutral, 2 contradiction); pairs without a gold label
    (-1) are left out, as every paper does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
        for line, (premise, hypothesis, label) in enumerate(
            zip(*table.to_pydict().values(), strict=True), start=1
        ):
            if label not in (-1, 0, 1, 2):
                raise UserError(
                    f"{path}, row {line}: label {label!r} is none of 0, 1, 2 (or -1, unlabelled)"
                )
            if label >= 0:
                premises.append(premise)
                hypotheses.append(hypothesis)
                labels.append(label)
    return Corpus((premises, hypotheses), np.asarray(labels))


def read_entailments(paths: list[Path]) -> Corpus:
    """The entailed pairs among NLI pairs: premise and hypothesis, no labels (clsr.md, section 3)."""
    pairs = read_nli_pairs(paths)
    assert pairs.labels is not None
    chosen = np.flatnonzero(pairs.labels == ENTAILMENT)
    return Corpus(tuple([column[item] for item in chosen] for column in pairs.columns))


def read_similar_pairs(paths: list[Path]) -> Corpus:
    """STS-B's training pairs with a score of 4 or more (1,406; clsr.md, section 3)."""
    fields = [line.split("\t") for line in lines("STS/STSBenchmark/sts-train.csv", paths[0])]
    similar = [row for row in fields if float(row[4]) >= 4]
    return Corpus(([row[5] for row in similar], [row[6] for row in similar]))


def read_triplets_as_pairs(paths: list[Path]) -> Corpus:
    """The entailments and contradictions of triplets as labelled pairs, with the next premise as the neutral one."""
    premises, entailments, contradictions = read_triplets(paths).columns
    hypotheses = (entailments, [*premises[1:], premises[0]], contradictions)
    labels = np.repeat([ENTAILMENT, NEUTRAL, CONTRADICTION], len(premises))
    return Corpus((premises * 3, [text for column in hypotheses for text in column]), labels)


def read_neighbours(paths: list[Path]) -> Corpus:
    """Running text, one sentence a line, an empty line between documents -> (sentence, the one after it)."""
    pairs: list[tuple[str, str]] = []
    for path in paths:
        rows = [row.strip() for row in _text(path).split("\n")]
        pairs.extend((one, two) for one, two in itertools.pairwise(rows) if one and two)
    if not pairs:
        raise UserError(f"{paths[0]} holds no two sentences in a row")
    return Corpus(([one for one, _ in pairs], [two for _, two in pairs]))


SNLI, MULTI_NLI = "stanfordnlp/snli", "nyu-mll/multi_nli"
_NLI_TRAIN = (
    (SNLI, "plain_text/train-00000-of-00001.parquet"),
    (MULTI_NLI, "data/train-00000-of-00001.parquet"),
)
_SNLI_DEV = (SNLI, "plain_text/validation-00000-of-00001.parquet")
_SNLI_TEST = (SNLI, "plain_text/test-00000-of-00001.parquet")

SOURCES: dict[str, Source] = {
    "wiki1m": Source(((SIMCSE, "wiki1m_for_simcse.txt"),), read_sentences, 1_000_000),
    "nli-triplets": Source(
        ((SIMCSE, "nli_for_simcse.csv"),), read_triplets, 275_601, labelled=True
    ),
    "nli-pairs": Source(_NLI_TRAIN, read_nli_pairs, 942_069, labelled=True),
    "nli-entailments": Source(_NLI_TRAIN, read_entailments, 314_315, labelled=True),
    "snli-dev": Source((_SNLI_DEV,), read_nli_pairs, 9_842, labelled=True),
    "snli-test": Source((_SNLI_TEST,), read_nli_pairs, 9_824, labelled=True),
    "snli-heldout": Source((_SNLI_DEV, _SNLI_TEST), read_nli_pairs, 19_666, labelled=True),
    "snli-heldout-entailments": Source(
        (_SNLI_DEV, _SNLI_TEST), read_entailments, 6_697, labelled=True
    ),
    "stsb-similar": Source(((SIMCSE, ARCHIVE),), read_similar_pairs, 1_406, labelled=True),
    "graded-sentences": Source(((GRADED, "sentences.txt"),), read_sentences),
    "graded-triplets": Source(((GRADED, "triplets.csv"),), read_triplets, labelled=True),
    "graded-pairs": Source(((GRADED, "triplets.csv"),), read_triplets_as_pairs, labelled=True),
}
READERS = {".txt": read_sentences, ".csv": read_triplets, ".parquet": read_nli_pairs}
NEIGHBOURS = "neighbours:"
"""In front of a file's name: its sentences in pairs of neighbours"""


def source(name: str) -> Source:
    """The corpus called `name`, or the file that it names: .txt sentences, .csv triplets, .parquet NLI pairs, and
    `neighbours:FILE` for running text. Raises UserError when there is none.
    """
    if name in SOURCES:
        return SOURCES[name]
    path = Path(name.removeprefix(NEIGHBOURS))
    if path.suffix not in READERS:
        raise UserError(
            f'unknown corpus "{name}"{suggest(name, SOURCES)} (or a .txt, .csv or .parquet file)'
        )
    if not path.is_file():
        raise UserError(f'corpus "{name}": there is no such file')
    read = read_neighbours if name.startswith(NEIGHBOURS) else READERS[path.suffix]
    return _FileSource((("", str(path.resolve())),), read, labelled=path.suffix != ".txt")


class _FileSource(Source):
    def paths(self, *, download: bool = True) -> list[Path]:
        return [Path(name) for _, name in self.files]


def count_items(name: str) -> int | None:
    """How many items a corpus has: counted where it is at hand, else as published, else None."""
    found = source(name)
    try:
        paths = found.paths(download=False)
    except UserError:
        return found.items
    return _counted(name, tuple((str(path), path.stat().st_mtime_ns) for path in paths))


@functools.cache
def _counted(name: str, files: tuple[tuple[str, int], ...]) -> int:
    """Items of a corpus with these files and times: a plan asks once a round, and a corpus may be a million lines."""
    return len(source(name).read([Path(path) for path, _ in files]))


def _text(path: Path) -> str:
    """The file as text. Raises UserError with the line that is not UTF-8."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text") from None
