"""The paired bootstrap between two models of one seed each, from embeddings that are kept.

`harness eval KEY --keep-embeddings` keeps them. Where those of two models are there, their scores
on the same sentence pairs are compared as in `harness compare`.
"""

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from harness.errors import TrialFailure, UserError
from harness.files import cache_folder

if TYPE_CHECKING:
    from harness.evaluation.suites import Embed

SUITES = ("sts", "graded")
"""The suites whose scores are correlations over sentence pairs"""


def paired_p_value(suite: str, first: str, second: str, metric: str) -> float:
    """The p-value for no difference between the trials with these keys in a metric of a suite.

    NaN where it cannot be computed: for another suite, without kept embeddings, or without data.
    """
    if suite not in SUITES or not all(map(_folder, (first, second))):
        return math.nan
    return _p_values(suite, *sorted((first, second))).get(metric, math.nan)


@cache
def _p_values(suite: str, first: str, second: str) -> dict[str, float]:
    from harness.evaluation.comparison import differences
    from harness.evaluation.suites import suite as named

    try:
        found = differences(named(suite), _kept(first), _kept(second))
    except (TrialFailure, UserError):
        return {}
    return {metric: compared.p_value for metric, (_, _, compared) in found.items()}


def _kept(key: str) -> "Embed":
    from harness.evaluation.kept_embeddings import KeptEmbeddings

    def missing(texts: list[str], **_: object) -> NoReturn:
        raise TrialFailure(f"the embeddings of {len(texts)} sentences are not kept")

    folder = _folder(key)
    assert folder is not None
    return KeptEmbeddings(folder, missing, write=False)


def _folder(key: str) -> Path | None:
    """The vectors of a trial; None where there are none, or those of several weights."""
    found = [*(cache_folder() / "embeddings" / key).glob("*/test")]
    return found[0] if len(found) == 1 else None
