"""The cosines of test pairs that are kept beside a store, so that models are compared later.

A file belongs to one trial and one suite, and lies beside the trial's weights. It is small: a
number for each pair, and its gold score.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.files import written_whole

_logger = logging.getLogger(__name__)

ScoredPairs = Mapping[str, np.ndarray]
"""Test -> (2, pairs) float64: the cosine of each pair, and its gold score"""


def keep_pairs(pairs: ScoredPairs, path: Path) -> None:
    """Write the pairs whole or not at all; a full disk is logged, since the scores are right."""
    if not pairs:
        return
    tests = [task for task, each in pairs.items() for _ in range(each.shape[1])]
    cosines, gold = np.concatenate(list(pairs.values()), axis=1)
    table = pa.table({"test": tests, "cosine": cosines, "gold": gold})
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
        table = pq.read_table(path, columns=["test", "cosine", "gold"])
        tests = np.asarray(table["test"].to_pylist(), str)
        numbers = np.stack([table[name].to_numpy() for name in ("cosine", "gold")]).astype(float)
    except (OSError, ValueError, pa.ArrowException) as error:
        _logger.warning("%s cannot be read (%s); its pairs are not compared", path, error)
        return {}
    if not np.isfinite(numbers).all():
        _logger.warning("%s has values that are no numbers; its pairs are not compared", path)
        return {}
    return {str(test): numbers[:, tests == test] for test in dict.fromkeys(tests.tolist())}
