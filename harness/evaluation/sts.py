"""STS: Spearman x100 of the seven test sets, of STS-B dev and SICK-R dev, and of graded pairs."""

import numpy as np

from harness.data.corpora import GRADED
from harness.data.hub import data_file
from harness.data.senteval import archive
from harness.data.sts_pairs import LOADERS, YEARS, Pairs
from harness.evaluation.bootstrap import uncertainty
from harness.evaluation.catalogue import CARDS
from harness.evaluation.correlation import spearman, sts_scores
from harness.evaluation.cosines import pair_cosines
from harness.evaluation.scores import Scores
from harness.evaluation.suites import register

TESTS = (*YEARS, "stsb", "sickr")
GRADED_FILES = ("dev.tsv", "test.tsv")


def correlations(task: str, pairs: Pairs, vectors: np.ndarray) -> Scores:
    """The scores of a test: SentEval's "all" (evaluation_protocol.md, section 1).

    vectors: those of all first sentences, then of all second ones. Details are Pearson, "mean",
    "wmean", and the subsets of a year.
    """
    first, second = vectors[: len(pairs)], vectors[len(pairs) :]
    found = sts_scores(first, second, pairs)
    parts = {**found.aggregated, **found.subsets}
    details = {
        f"{task}/{name}/{kind}": getattr(score, kind)
        for name, score in parts.items()
        for kind in ("spearman", "pearson")
    }
    cosines = pair_cosines(first, second)
    known = uncertainty(cosines, pairs.gold)
    spread = {task: known} if known else {}
    score = {task: found.aggregated["all"].spearman}
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
    lambda: [data_file(GRADED, name) for name in GRADED_FILES],
    select=selecting,
    sentences_dev=800,
    sentences_test=1_200,
)(correlations)
