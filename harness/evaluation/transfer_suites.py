"""The suites of transfer tasks. Their classifiers are imported when they score."""

import numpy as np

from harness.data.classification import Splits
from harness.data.senteval import archive
from harness.evaluation.catalogue import SENTEVAL_DEV, TRANSFER_DEV
from harness.evaluation.scores import Scores
from harness.evaluation.suites import register
from harness.evaluation.transfer_tasks import TASKS, AllTasks, accuracies

SENTENCES = 105_000
"""Distinct sentences of the seven tasks"""


@register(
    "transfer",
    {**TASKS, TRANSFER_DEV: AllTasks},
    lambda: [archive()],
    sentences_dev=SENTENCES,
    sentences_test=SENTENCES,
)
def minimum(task: str, data: Splits | AllTasks, vectors: np.ndarray) -> Scores:
    """The scores of a task with classifiers at their minimum."""
    from harness.evaluation.transfer import transfer

    return accuracies(task, data, vectors, transfer)


@register(
    "transfer-senteval",
    {**TASKS, SENTEVAL_DEV: AllTasks},
    lambda: [archive()],
    sentences_dev=SENTENCES,
    sentences_test=SENTENCES,
)
def senteval(task: str, data: Splits | AllTasks, vectors: np.ndarray) -> Scores:
    """The scores of a task with SentEval's own classifiers."""
    from harness.evaluation.transfer_senteval import senteval_transfer

    return accuracies(task, data, vectors, senteval_transfer)
