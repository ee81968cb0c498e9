"""Steps as CUDA graphs beside steps whose kernels are launched one by one."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from unittest.mock import patch

from inputs import Inputs
from speed import built

from harness.training.loop import Trainer
from harness.training.optimisers import Done
from harness.training.progress import Outcome
from harness.training.steps import loss_metric

COMPARED = 20
"""Steps whose losses are compared"""


class OneByOne:
    """A recorder that captures nothing: the same steps, on the same memory."""

    def computing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def record(self, compute: Callable[[], Done]) -> Callable[[], Done]:
        return compute


@contextmanager
def one_by_one(*, wanted: bool) -> Iterator[None]:
    """In the block, captured steps are launched one kernel after the other, where it is wanted."""
    with (
        patch("harness.training.capture.Graphs", lambda _: OneByOne())
        if wanted
        else (nullcontext())
    ):
        yield


def graphs(inputs: Inputs) -> None:
    """Seconds of a step, and the losses of captured steps beside the same ones not captured."""
    with one_by_one(wanted=inputs.short):
        plain, captured = (_seconds(inputs, cuda_graphs=each) for each in (False, True))
        losses = _losses(_trained(inputs, inputs.steps(COMPARED), cuda_graphs=True))
    with one_by_one(wanted=True):
        expected = _losses(_trained(inputs, inputs.steps(COMPARED), cuda_graphs=True))
    farthest = max(abs(one - other) for one, other in zip(losses, expected, strict=True))
    print(
        f"batch 64: {1000 * captured:.2f} ms a captured step, {1000 * plain:.2f} ms without "
        f"graphs: {plain / captured:.2f} times as fast"
    )
    print(f"losses of {len(losses)} steps: {farthest:.1e} apart from those of the same steps")


def _seconds(inputs: Inputs, *, cuda_graphs: bool) -> float:
    """Seconds of a step. The first steps, in which graphs are captured, do not count."""
    count, moments = inputs.steps(150), list[float]()

    def evaluate() -> float:
        moments.append(time.perf_counter())  # the trainer has waited for the GPU
        return 0.0

    options = {"cuda_graphs": cuda_graphs, "evaluation_interval": count}
    _trained(inputs, 3 * count, evaluate, **options)
    return (moments[-1] - moments[-3]) / (2 * count)


def _trained(
    inputs: Inputs, steps: int, evaluate: Callable[[], float] = lambda: 0.0, **values: object
) -> Outcome:
    method, kit = built(inputs, batch_size=64, **values)
    (stage,) = kit.declared.stages
    kit.declared.stages = [replace(stage, max_steps=steps, epochs=None)]
    return Trainer(method, kit, 0, evaluate, lambda _: None).run()


def _losses(outcome: Outcome) -> list[float]:
    name = loss_metric("contrastive")
    return [point["value"] for point in outcome.curves if point["metric"] == name]
