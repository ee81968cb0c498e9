"""STS: Spearman x100 of the seven test sets, of STS-B dev and SICK-R dev, and of scored pairs.

Suites of a user's own scored pairs are a table with a column that says dev or test, or two tables:
`pairs.csv` has a column `split`; `test.csv?dev=dev.csv` is two files. What else stands behind the
question mark is that of a corpus (harness.data.shapes), and `split=COLUMN` names the column.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from harness.data.corpora import GRADED, file_of
from harness.data.hub import data_file
from harness.data.readers import read_table, shape_of
from harness.data.rows import bare_name, columns_of, rows, spelt
from harness.data.senteval import archive
from harness.data.shapes import CorpusName, parsed, split_name
from harness.data.sts_pairs import LOADERS, YEARS, Pairs
from harness.errors import UserError
from harness.evaluation.bootstrap import uncertainty
from harness.evaluation.catalogue import CARDS, SuiteCard
from harness.evaluation.correlation import pair_cosines, spearman, sts_scores
from harness.evaluation.scores import Scores
from harness.evaluation.suites import Suite, check_names, register
from harness.files import content_digest, digest
from harness.inputs import regular_file
from harness.relocation import here

TESTS = (*YEARS, "stsb", "sickr")


def correlations(task: str, pairs: Pairs, vectors: np.ndarray) -> Scores:
    """The scores of a test: SentEval's "all" (evaluation_protocol.md, section 1).

    vectors: those of all first sentences, then of all second ones. Details are Pearson, "mean",
    "wmean", and the subsets of a year.
    """
    first, second = vectors[: len(pairs)], vectors[len(pairs) :]
    scores = sts_scores(first, second, pairs)
    details = {
        f"{task}/{name}/{kind}": getattr(score, kind)
        for name, score in scores.items()
        for kind in ("spearman", "pearson")
    }
    cosines = pair_cosines(first, second)
    known = uncertainty(cosines, pairs.gold)
    spread = {task: known} if known else {}
    score = {task: scores["all"].spearman}
    return Scores(score, details, spread, {task: np.stack([cosines, pairs.gold])})


def selecting(pairs: Pairs, vectors: np.ndarray) -> float:
    """The score that selects: Spearman x100."""
    # Dev is scored many times along training, so the bootstrap and the details are left out.
    return spearman(vectors[: len(pairs)], vectors[len(pairs) :], pairs.gold)


sts = register(
    "sts",
    {name: LOADERS[name] for name in (*TESTS, *CARDS["sts"].dev_tasks)},
    lambda: [archive()],
    select=selecting,
    sentences_dev=2_900,
    sentences_test=26_000,
)(correlations)

graded = register(
    "graded",
    {name: LOADERS[name] for name in ("graded-dev", "graded")},
    lambda: [data_file(GRADED, name) for name in ("dev.tsv", "test.tsv")],
    select=selecting,
    sentences_dev=800,
    sentences_test=1_200,
)(correlations)


SPLIT_COLUMN = "split"
"""The column of dev and test, where the name of the suite says no other"""
DEV_NAMES, TEST_NAMES = ("dev", "validation", "valid"), ("test",)
"""Values of this column in the data sets of the field"""


def pair_suite(name: str) -> Suite:
    """The suite of the tables that `name` names: Spearman x100 on test, and on dev, which selects.

    Raises UserError for a file that is missing or that holds no scored pairs.
    """
    rest, named = _taken(name, ("dev", "split"))
    test = _file(parsed(rest).data, name)
    if len(named) == 2:
        raise UserError(
            f'suite "{name}": dev=FILE and split=COLUMN both say which pairs select; keep one of '
            f"them"
        )
    dev = _file(named["dev"], name) if "dev" in named else None
    files = (test,) if dev is None else (test, dev)
    contents = tuple(content_digest(path) for path in files)
    return _made(rest, files, named.get("split"), contents)


def _taken(name: str, keys: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The name without the options `keys`, and the values of these."""
    data, query = split_name(name)
    parts = [part.partition("=") for part in query.split("&")]
    kept = ["".join(part) for part in parts if part[0] not in keys]
    found = {key: unquote(value) for key, _, value in parts if key in keys}
    return "?".join(filter(None, [data, "&".join(kept)])), found


def _file(data: str, name: str) -> Path:
    path = file_of(data)
    if path is None:
        raise UserError(f'suite "{name}": {data} is no file with scored pairs')
    return regular_file(here(path), "suite: ")


# The suite is one object for as long as its files are the same, so that data are read once.
@functools.cache
def _made(name: str, files: tuple[Path, ...], split: str | None, _: tuple[str, ...]) -> Suite:
    """The suite of these files; `name` is without the options `dev` and `split`."""
    title = bare_name(files[0])
    splits = _splits(parsed(name), files, split)
    dev = f"{title}-dev"
    data: dict[str, Callable[[], Pairs]] = {title: functools.partial(_pairs, *splits["test"])}
    if "dev" in splits:
        data[dev] = functools.partial(_pairs, *splits["dev"])
    card = SuiteCard(
        title,
        {title: title},
        unit="Spearman x100",
        dev_tasks=(dev,) if "dev" in splits else (),
        decimals=2,
    )
    query = digest(f"{split_name(name)[1]} {split}")
    made = Suite(card, correlations, data, lambda: list(files), selecting, code_digest=query)
    check_names(made, f"{files[0]} makes", "rename the file")
    return made


def _splits(
    table: CorpusName, files: tuple[Path, ...], split: str | None
) -> dict[str, tuple[CorpusName, Path]]:
    """Split -> what of which file is read. Raises UserError when a file has no scored pairs."""
    columns = columns_of(files[0])
    shape, roles = shape_of(table, files[0])
    if shape != "scored pairs":
        raise UserError(f"{files[0]}: a suite needs scored pairs, and the file has {shape}")
    whole = table.model_copy(update={"columns": dict(roles)})
    if len(files) == 2:
        return {"test": (whole, files[0]), "dev": (whole, files[1])}
    column = split or SPLIT_COLUMN
    if split is not None and split not in columns:
        raise UserError(f'{files[0]} has no column "{split}" that says dev or test')
    # Where the name of the suite filters by the column, it says which pairs are reported.
    if column not in columns or column in whole.where:
        return {"test": (whole, files[0])}
    has_dev = any(spelt(row.get(column)) in DEV_NAMES for _, row in rows(files[0], [column]))
    return {
        key: (whole.model_copy(update={"where": {**whole.where, column: list(names)}}), files[0])
        for key, names in (("test", TEST_NAMES), ("dev", DEV_NAMES))
        if key == "test" or has_dev
    }


def _pairs(table: CorpusName, path: Path) -> Pairs:
    """The pairs of a split. Raises UserError when none is left."""
    try:
        corpus = read_table(table, [path])
    except UserError as error:
        if table.where and str(error).endswith("that the filter leaves"):
            said = "; ".join(f"{key}={' or '.join(values)}" for key, values in table.where.items())
            raise UserError(f"{path} holds no pair with {said}") from None
        raise
    assert corpus.labels is not None
    first, second = map(list, corpus.columns)
    return Pairs(first, second, np.asarray(corpus.labels, np.float64))
