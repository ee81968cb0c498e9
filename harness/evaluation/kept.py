"""Embeddings and cosines of test pairs that are kept on disk, and the comparison of models by them.

Of a user's retrieval, the figures of each query stand in the place of the cosines.

Embeddings are kept for later evaluations in pairs of files: `NAME.npy`, (sentences, hidden)
float32, is read by memory map, and `NAME.parquet` has the texts of these sentences in the same
order. Their manifest `NAME.json` is written last, so a pair counts only when it is there. Files
never change; damaged ones are removed. Cosines are kept beside a store, a file for one trial and
one suite, so that models are compared later on the same test pairs, and on resamples of them.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.arrays import save_array
from harness.errors import TrialFailure, UserError
from harness.evaluation.bootstrap import RESAMPLES, mean_replicates, replicates
from harness.evaluation.correlation import correlation, pair_cosines
from harness.evaluation.judged import figures
from harness.evaluation.scores import Queries, Scores
from harness.evaluation.sts import correlations
from harness.evaluation.suites import Embed, Embeddings, Suite, SuiteCard
from harness.files import written_whole
from harness.manifests import damage, seal

_logger = logging.getLogger(__name__)
_OF_PAIRS, _OF_QUERIES = ("cosine", "gold"), ("figure", "query")
"""The columns of a file of test pairs, and of one of queries, behind `test`"""
_PAIR = (".npy", ".parquet")
"""The endings of the files of a pair"""


class KeptEmbeddings:
    """A model whose vectors are kept: a sentence is embedded once, ever."""

    def __init__(self, folder: Path, embed: Embed, *, write: bool) -> None:
        """Read the vectors in `folder`, and embed with `embed` what is not there.

        `write`: keep new vectors in the folder, too.
        """
        self.folder, self.embed, self.write = folder, embed, write
        self._parts: list[np.ndarray] = []
        self._place: dict[str, tuple[int, int]] = {}
        for manifest in sorted(folder.glob("*.json")):
            if why := damage(manifest):
                _logger.warning("%s; its sentences are embedded again", why)
                for end in (".json", *_PAIR):  # nothing can read the pair any more
                    with suppress(OSError):
                        manifest.with_suffix(end).unlink()
                continue
            with pq.ParquetFile(manifest.with_suffix(".parquet")) as file:
                texts = file.read(["text"])["text"].to_pylist()
            self._add(texts, np.load(manifest.with_suffix(".npy"), mmap_mode="r"))

    def __call__(self, texts: list[str], *, dev: bool = False) -> np.ndarray:
        """The vectors of the texts, (len(texts), hidden) float32.

        What is not kept yet is embedded in one pass. `dev`: passed on to the model. Raises
        TrialFailure when the new vectors are not as wide as the kept ones.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._place]
        if new:
            vectors = self.embed(new, dev=dev)
            self._add(new, vectors)
            if self.write:
                self._keep(new, vectors)
        places = np.asarray([self._place[text] for text in texts])
        vectors = np.empty((len(texts), self._parts[0].shape[1]), np.float32)
        # File by file, so that of each only the rows that are asked for are read.
        for number, part in enumerate(self._parts):
            rows = np.flatnonzero(places[:, 0] == number)
            vectors[rows] = part[places[rows, 1]]
        return vectors

    def _add(self, texts: list[str], vectors: np.ndarray) -> None:
        """Add vectors to those in memory. Raises TrialFailure for another width than theirs."""
        if self._parts and vectors.shape[1] != self._parts[0].shape[1]:
            widths = f"{self._parts[0].shape[1]} and {vectors.shape[1]}"
            raise TrialFailure(
                f"embeddings of two widths, {widths}; delete {self.folder} if the kept ones are old"
            )
        # Two processes may have kept the same sentence; the vectors read first count.
        self._place |= {
            text: (len(self._parts), row)
            for row, text in enumerate(texts)
            if text not in self._place
        }
        self._parts.append(vectors)

    def _keep(self, texts: list[str], vectors: np.ndarray) -> None:
        """Write the newest vectors. When that fails, the scores are still right."""
        # A random name, since several processes may write into one folder.
        path = self.folder / uuid.uuid4().hex
        try:
            with written_whole(path.with_suffix(".npy")) as temporary:
                save_array(temporary, vectors)
            with written_whole(path.with_suffix(".parquet")) as temporary:
                pq.write_table(pa.table({"text": texts}), temporary)
            # The manifest comes last: other processes look for it.
            seal(path.with_suffix(".json"), [path.with_suffix(end) for end in _PAIR])
        except OSError as error:
            _logger.warning("the embeddings %s are not kept: %s", path, error)
        else:
            # From now on they are read from the file, and their memory is free.
            self._parts[-1] = np.load(path.with_suffix(".npy"), mmap_mode="r")


ScoredPairs = Mapping[str, np.ndarray | Queries]
"""Test -> (2, pairs) float64: the cosine of each pair, and its gold score.

Or a metric of a retrieval -> the figure of each query."""
PAIRS, QUERIES = "pairs", "queries"
"""The items of a test, as sentences name them"""


def items_of(suite: Suite) -> str | None:
    """The items of which a suite keeps how a model does on each; None: it keeps none."""
    if suite.score is correlations:
        return PAIRS
    return QUERIES if isinstance(suite.score, partial) and suite.score.func is figures else None


def score_of(kept: np.ndarray | Queries) -> float:
    """The score of what is kept of a test. Raises TrialFailure where there is no correlation."""
    if isinstance(kept, Queries):
        return 100 * float(kept.figures.mean())
    return correlation(*kept).spearman


def keep_pairs(pairs: ScoredPairs, path: Path) -> None:
    """Write the pairs whole or not at all; a full disk is logged, since the scores are right."""
    if not pairs:
        return
    names = _OF_QUERIES if isinstance(next(iter(pairs.values())), Queries) else _OF_PAIRS
    tests = [task for task, each in pairs.items() for _ in each[0]]
    columns = (np.concatenate(parts) for parts in zip(*pairs.values(), strict=True))
    table = pa.table({"test": tests, **dict(zip(names, columns, strict=True))})
    try:
        with written_whole(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    except OSError as error:
        _logger.warning("the cosines %s are not kept: %s", path, error)


def kept_pairs(path: Path) -> ScoredPairs:
    """The pairs in a file; none where there is no file, or where it is damaged."""
    if not path.is_file():
        return {}
    try:
        # `read_table` would import pyarrow's data sets, which nothing else here needs.
        with pq.ParquetFile(path) as file:
            of_queries = _OF_QUERIES[0] in file.schema_arrow.names
            names = _OF_QUERIES if of_queries else _OF_PAIRS
            table = file.read(["test", *names])
        tests = np.asarray(table["test"].to_pylist(), str)
        first, second = (table[name].to_numpy() for name in names)
        first = first.astype(float)
        second = second.astype(np.int64 if of_queries else float)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        _logger.warning("%s cannot be read (%s); its pairs are not compared", path, error)
        return {}
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        _logger.warning("%s has values that are no numbers; its pairs are not compared", path)
        return {}
    rows = {str(test): tests == test for test in dict.fromkeys(tests.tolist())}
    if of_queries:
        return {test: Queries(first[own], second[own]) for test, own in rows.items()}
    return {test: np.stack([first[own], second[own]]) for test, own in rows.items()}


def no_pairs(name: str) -> UserError:
    """The refusal of a suite that keeps nothing of its items."""
    return UserError(
        f'suite "{name}" has no sentence pairs to resample; models are compared on sts, graded, a '
        f"table of scored pairs, or a folder with queries and documents"
    )


def check_pairs(suite: Suite) -> None:
    """Raises UserError for a suite that keeps nothing of its items."""
    if items_of(suite) is None:
        raise no_pairs(suite.name)
    for task in suite.tests:
        suite.load(task)


def scored_pairs(suite: Suite, embed: Embed) -> ScoredPairs:
    """The cosines of a model on the test pairs of a suite, or its figures of each query.

    Raises TrialFailure where an embedding is not finite.
    """
    tests = {task: suite.load(task) for task in suite.tests}
    # All tests at once, so that a sentence of several tests is embedded once.
    vectors = Embeddings(embed, chain.from_iterable(pairs.texts for pairs in tests.values()))
    if items_of(suite) == QUERIES:
        measured = (suite.measure(task, vectors).pairs for task in tests)
        return {metric: each for found in measured for metric, each in found.items()}
    return {
        task: np.stack([pair_cosines(vectors(pairs.first), vectors(pairs.second)), pairs.gold])
        for task, pairs in tests.items()
    }


def test_scores(suite: Suite, pairs: ScoredPairs) -> dict[str, float]:
    """The score of each test, and their average last.

    Raises TrialFailure where a model has no correlation.
    """
    scores = {task: score_of(each) for task, each in pairs.items()}
    return scores | suite.averaged(Scores(scores)).metrics


def resampled_scores(
    card: SuiteCard, models: Sequence[ScoredPairs], resamples: int = RESAMPLES
) -> dict[str, np.ndarray | None]:
    """Test -> the scores of the models in resamples of its pairs, (models, resamples).

    The average of the suite comes last. None for a test that some model lacks, and where the models
    have other gold scores or the pairs are too few.
    """
    tests = dict.fromkeys(task for model in models for task in model)
    scores = {task: _resampled([model.get(task) for model in models], resamples) for task in tests}
    if card.average is not None:
        of = card.averages.get(card.average, card.tasks(tests))
        parts = [scores.get(task) for task in of]
        whole = [each for each in parts if each is not None]
        scores[card.average] = np.mean(whole, axis=0) if len(whole) == len(parts) > 0 else None
    return scores


def _resampled(models: Sequence[np.ndarray | Queries | None], resamples: int) -> np.ndarray | None:
    present = [model for model in models if model is not None]
    if len(present) < len(models) or not all(
        np.array_equal(model[1], present[0][1]) for model in present
    ):
        return None
    if isinstance(present[0], Queries):
        values = np.stack([model[0] for model in present])
        return mean_replicates(values, resamples=resamples) if values.shape[1] > 1 else None
    # All models in the same resamples: what makes a pair easy for all of them cancels out.
    drawn = replicates([model[0] for model in present], present[0][1], resamples=resamples)
    return None if np.isnan(drawn).any() else drawn
