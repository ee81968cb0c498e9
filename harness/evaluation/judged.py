"""Suites of a user's own retrieval: a folder with queries, documents and relevant pairs.

It has `queries.*`, `documents.*` and `relevant.*`, in any format of corpora, or BEIR's layout:
`queries.jsonl`, `corpus.jsonl`, `qrels/test.tsv` and, for the choice of a configuration,
`qrels/dev.tsv`. In `relevant.*`, a column `split` may say dev or test.

The figures are those of trec_eval on the 1,000 nearest documents. Of documents that tie, the one
whose id sorts last is nearer, as there.
"""

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.data.readers import text_of
from harness.data.rows import (
    FORMATS,
    TableRow,
    bare_name,
    ending,
    known_endings,
    number_of,
    rows,
    spelt,
)
from harness.errors import UserError, explained, suggest
from harness.evaluation.bootstrap import mean_replicates, spread
from harness.evaluation.catalogue import NDCG, SuiteCard
from harness.evaluation.scores import Queries, Scores
from harness.evaluation.search import nearest
from harness.evaluation.sts import DEV_NAMES, SPLIT_COLUMN, TEST_NAMES
from harness.evaluation.suites import Suite, check_names
from harness.files import content_digest, digest, digest_of
from harness.inputs import is_folder, regular_file
from harness.relocation import here

DEPTH = 1000
"""Nearest documents of a query that are looked at"""
CUTOFFS = (1, 5, 10, 100)
"""Numbers of nearest documents whose recall is reported"""
MRR = "mrr"
_GAINS = 10
"""Nearest documents that count in NDCG"""
_PARTS = {
    "queries": ("queries",),
    "documents": ("documents", "corpus"),
    "test": ("relevant", "qrels/test"),
    "dev": ("qrels/dev",),
}
"""Part of a suite -> the names of its file, without the ending"""
_IDS, _QUERY, _DOCUMENT = ("id", "_id"), ("query", "query-id"), ("document", "corpus-id")
_SCORE = "score"
_LARGEST = 2**31
"""Scores are below, as trec_eval holds them"""


@dataclass(frozen=True)
class Judged:
    """Queries, documents, and which documents are relevant to which query."""

    queries: list[str]
    documents: list[str]
    """Texts, in falling order of their ids"""
    gains: list[dict[int, int]]
    """Scores of the relevant documents of each query, at least 1, by the row of the document"""

    @property
    def texts(self) -> list[str]:
        """All queries, then all documents."""
        return [*self.queries, *self.documents]

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """A number of each query, the same for the same query, judgements and documents: int64."""
        documents = digest("\0".join(self.documents))
        named = (
            digest_of([documents, query, sorted(gains.items())])
            for query, gains in zip(self.queries, self.gains, strict=True)
        )
        return np.asarray([int(name[:15], 16) for name in named], np.int64)


def judged_suite(name: str) -> Suite:
    """The suite of the folder `name`.

    Raises UserError, with file, line and id, for whatever is wrong in its files.
    """
    folder = here(Path(name))
    with explained(f"suite {folder} cannot be read: "):
        there = [(part, _file(folder, part, names)) for part, names in _PARTS.items()]
    files = tuple((part, file) for part, file in there if file is not None)
    title = Path(os.path.abspath(folder)).name  # noqa: PTH100 - a link keeps its own name
    made = _made(title, files, tuple(content_digest(file) for _, file in files))
    check_names(made, f"{folder} makes", "rename the folder")
    return made


def _file(folder: Path, part: str, names: tuple[str, ...]) -> Path | None:
    """The file of a part; None where there is no dev."""
    there = [
        path
        for parent in dict.fromkeys((folder / name).parent for name in names)
        if is_folder(parent)
        for path in sorted(parent.iterdir())
        if ending(path) in FORMATS
        and path.relative_to(folder).with_name(bare_name(path)).as_posix() in names
    ]
    if len(there) > 1:
        raise UserError(f"{there[0]} and {there[1]} are one part of a suite: keep one of them")
    if not there and part != "dev":
        raise UserError(
            f"suite {folder}: there is no file {' or '.join(names)}; {known_endings()} are read"
        )
    return regular_file(there[0], "suite: ") if there else None


# The suite is one object for as long as its files are the same, so that data are read once.
@functools.cache
def _made(title: str, files: tuple[tuple[str, Path], ...], _: tuple[str, ...]) -> Suite:
    paths = dict(files)
    splits, unjudged = _read(paths)
    dev = f"{title}-dev"
    data = {title: splits["test"]} | ({dev: splits["dev"]} if "dev" in splits else {})
    test = splits["test"]
    left_out = "queries without a relevant document in test or dev, left out"
    card = SuiteCard(
        title,
        {NDCG: "NDCG@10", MRR: "MRR", **{f"recall@{k}": f"R@{k}" for k in CUTOFFS}},
        unit="NDCG, MRR and recall x100",
        protocol=f"{len(test.documents):,} documents; queries of the test: {len(test.queries):,}"
        + (f"; {left_out}: {unjudged:,}." if unjudged else "."),
        dev_tasks=(dev,) if "dev" in splits else (),
        decimals=2,
    )
    return Suite(
        card,
        functools.partial(figures, dev),
        {task: functools.partial(data.__getitem__, task) for task in data},
        lambda: list(paths.values()),
        selecting,
        sentences_dev=len(set(splits["dev"].texts)) if "dev" in splits else 0,
        sentences_test=len(set(test.texts)),
        code_digest=digest("queries, documents and relevant pairs"),
    )


def _read(paths: Mapping[str, Path]) -> tuple[dict[str, Judged], int]:
    """Split -> its data, and the number of queries without a relevant document in any split."""
    queries = _texts(paths["queries"])
    texts = _texts(paths["documents"])
    documents = dict(sorted(texts.items(), reverse=True))
    row = {name: at for at, name in enumerate(documents)}
    scores: dict[str, dict[str, dict[int, int]]] = {}
    judgements = dict[tuple[str, str], str]()
    """Query and document -> where their pair stands"""
    split_of = dict[str, str]()
    for split, where, query, document, score in _judgements(paths):
        for name, known, kind in ((query, queries, "query"), (document, row, "document")):
            if name not in known:
                near = suggest(name, known) if len(known) <= DEPTH else ""
                kept = paths["queries" if kind == "query" else "documents"]
                raise UserError(f'{where}: {kept} has no {kind} with the id "{name}"{near}')
        if before := judgements.get((query, document)):
            raise UserError(
                f'{where}: query "{query}" and document "{document}" stand in {before}, too'
            )
        if split_of.setdefault(query, split) != split:
            raise UserError(
                f'{where}: query "{query}" is of dev and of test, and test scores never select; '
                f"keep it in one of them"
            )
        judgements[query, document] = where
        if score > 0:
            scores.setdefault(split, {}).setdefault(query, {})[row[document]] = score
    listed = list(documents.values())
    judged = {
        split: Judged([queries[query] for query in gains], listed, list(gains.values()))
        for split, gains in scores.items()
    }
    for split in ("test", *split_of.values(), *paths.keys() & {"dev"}):
        if split not in judged:
            file = paths.get(split, paths["test"])
            raise UserError(f"{file} says of no document that it is relevant ({split})")
    return judged, len(queries) - sum(map(len, scores.values()))


def _texts(path: Path) -> dict[str, str]:
    """Id -> text, after the title where there is one. Raises UserError for an id twice."""
    texts = dict[str, str]()
    for number, (where, row) in enumerate(rows(path, (*_IDS, "title", "text")), start=1):
        name = _id(row, _IDS, where) if row.keys() & {*_IDS} else str(number)
        if name in texts:
            raise UserError(f'{where}: the id "{name}" stands there twice')
        text = text_of(row.get("text"), "text", where)
        title = text_of(row.get("title") or "", "title", where)
        texts[name] = f"{title} {text}".strip() or " "
    if not texts:
        raise UserError(f"{path} holds no text")
    return texts


def _judgements(paths: Mapping[str, Path]) -> Iterator[tuple[str, str, str, str, int]]:
    """Every judged pair: its split, its place, query, document and score."""
    for split in ("test", "dev"):
        for where, row in rows(paths[split]) if split in paths else ():
            own = spelt(row[SPLIT_COLUMN]) if SPLIT_COLUMN in row else split
            query, document = _id(row, _QUERY, where), _id(row, _DOCUMENT, where)
            score = number_of(row[_SCORE]) if _SCORE in row else 1
            if not (abs(score) < _LARGEST and score == int(score)):
                raise UserError(
                    f"{where}: the score {spelt(row[_SCORE])!r} is no whole number below {_LARGEST}"
                )
            if own in (*DEV_NAMES, *TEST_NAMES):
                yield "test" if own in TEST_NAMES else "dev", where, query, document, int(score)


def _id(row: TableRow, columns: tuple[str, ...], where: str) -> str:
    """The id in the first of these columns that a row has, as the file spells it."""
    column = next((each for each in columns if each in row), None)
    if column is None:
        raise UserError(f"{where}: there is no column {' or '.join(columns)}")
    value = row[column]
    name = spelt(value).strip()
    if isinstance(value, list | dict) or not name:
        raise UserError(f'{where}: column "{column}" holds no id')
    return name


def figures(dev: str, task: str, judged: Judged, vectors: np.ndarray) -> Scores:
    """The scores of a task x100: means over the queries that have a relevant document.

    dev: the name of the dev task, whose only figure is NDCG@10. vectors: those of `judged.texts`.
    Details are the numbers of queries and documents. A single query has no uncertainty.
    """
    by_query = ranked(judged, vectors)
    # An order of their own, so that the order of a file does not change a resample.
    order = np.argsort(judged.numbers, kind="stable")
    names = (dev,) if task == dev else (NDCG, MRR, *(f"recall@{k}" for k in CUTOFFS))
    values = by_query[order, : len(names)].T
    scores = dict(zip(names, (100 * by_query.mean(axis=0)).tolist(), strict=False))
    sizes = {"queries": len(judged.queries), "documents": len(judged.documents)}
    details = {f"{task}/{name}": float(size) for name, size in sizes.items()}
    drawn = mean_replicates(values) if len(order) > 1 else ()
    spreads = {name: spread(each) for name, each in zip(names, drawn, strict=False)}
    pairs = {
        name: Queries(each, judged.numbers[order]) for name, each in zip(names, values, strict=True)
    }
    return Scores(scores, details, spreads, dict(pairs))


def selecting(judged: Judged, vectors: np.ndarray) -> float:
    """The score that selects: NDCG@10 x100."""
    return 100 * float(ranked(judged, vectors)[:, 0].mean())


def ranked(judged: Judged, vectors: np.ndarray) -> np.ndarray:
    """NDCG@10, the reciprocal rank and the recalls of every query, (queries, figures), 0 to 1.

    A gain is the score, and is divided by the logarithm of the rank plus one (trec_eval's
    ndcg_cut); the reciprocal rank is that of the first relevant document, and 0 behind `DEPTH`.
    """
    count = len(judged.queries)
    rows_found, _ = nearest(vectors[:count], vectors[count:], DEPTH)
    weights = 1 / np.log2(np.arange(2, _GAINS + 2))
    values = np.empty((count, 2 + len(CUTOFFS)))
    for query, (gains, found) in enumerate(zip(judged.gains, rows_found, strict=True)):
        ranks = np.flatnonzero(np.isin(found, list(gains)))
        top = [gains[row] for row in found[ranks[ranks < _GAINS]]]
        ideal = sorted(gains.values(), reverse=True)[:_GAINS]
        ndcg = weights[ranks[: len(top)]] @ top / (weights[: len(ideal)] @ ideal)
        first = 1 / (1 + ranks[0]) if len(ranks) else 0.0
        values[query] = ndcg, first, *((ranks < k).sum() / len(gains) for k in CUTOFFS)
    return values
