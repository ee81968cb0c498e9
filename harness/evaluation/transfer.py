"""The suite `transfer-senteval`: SentEval's own classifiers on frozen embeddings.

The protocol is in evaluation_protocol.md, section 2.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from harness.data.senteval import DATASETS, Splits, archive
from harness.evaluation.catalogue import TRANSFER_DEV
from harness.evaluation.scores import Scores
from harness.evaluation.suites import register


@functools.cache
def _task(name: str) -> Splits:
    return DATASETS[name]()


TASKS: Mapping[str, Callable[[], Splits]] = {
    name: functools.partial(_task, name) for name in DATASETS
}
"""Task -> the function that reads it, once in a process"""


# A checkpoint is chosen by one number, so the seven tasks have to be one dev task.
class AllTasks:
    """The seven tasks as one task, for the mean of their dev accuracies."""

    def __init__(self) -> None:
        self.tasks = [read() for read in TASKS.values()]

    @property
    def texts(self) -> list[str]:
        """The texts of every task, one task after the other."""
        return [text for task in self.tasks for text in task.texts]


def dev_average(tasks: Sequence[Splits], vectors: np.ndarray) -> float:
    """The mean of the dev accuracies x100 in fast mode (diffcse.md, section 4).

    vectors: those of the texts of every task, one task after the other. DiffCSE selects its
    checkpoints for the transfer tasks by this score.
    """
    from harness.evaluation.senteval_classifier import transfer

    starts = np.cumsum([0, *(len(task.texts) for task in tasks)])
    parts = [vectors[start:stop] for start, stop in pairwise(starts)]
    devs = [transfer(task, part, fast=True).dev for task, part in zip(tasks, parts, strict=True)]
    return float(np.mean(devs))


SENTENCES = 105_000
"""Distinct sentences of the seven tasks"""


@register(
    "transfer-senteval",
    {**TASKS, TRANSFER_DEV: AllTasks},
    lambda: [archive()],
    sentences_dev=SENTENCES,
    sentences_test=SENTENCES,
)
def accuracies(task: str, data: Splits | AllTasks, vectors: np.ndarray) -> Scores:
    """The scores of a task: its test accuracy, or for the dev task the mean dev accuracy.

    Details are the dev accuracy, F1, and the mean of the logarithms of the chosen penalties.
    """
    if isinstance(data, AllTasks):
        return Scores({task: dev_average(data.tasks, vectors)})
    from harness.evaluation.senteval_classifier import transfer  # a plan names suites without torch

    accuracy = transfer(data, vectors)
    details = {
        f"{task}/dev": accuracy.dev,
        f"{task}/penalty-log10": float(np.log10(accuracy.penalties).mean()),
    }
    if accuracy.f1 is not None:
        details[f"{task}/f1"] = accuracy.f1
    return Scores({task: accuracy.test}, details)
