"""What a record keeps of the steps of a training: loss terms, learning rates, gradient norms.

A stage keeps its first step and every multiple of an interval. The interval is 1 in a short stage,
and doubles when there would be more than KEPT_STEPS steps; what is no multiple of it is then
dropped. So the kept steps follow from the length of the stage alone, and a training that is stopped
and goes on keeps those of an undisturbed one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.plugin.stage import Stage
from harness.training.progress import GRADIENT_NORM, Outcome, Point

KEPT_STEPS = 200
"""The most steps that are kept of a stage"""


def loss_metric(name: str) -> str:
    """The metric of a loss of a stage: the mean over the batches of a step, without its weight."""
    return f"loss/{name}"


def rate_metric(field: str) -> str:
    """The metric of a learning rate; `field`: the configuration field that has its peak."""
    return f"rate/{field}"


def interval(steps: int) -> int:
    """The interval of the kept steps after so many steps of a stage, a power of two."""
    found = 1
    while steps // found >= KEPT_STEPS:
        found *= 2
    return found


def is_kept(step: int, steps: int) -> bool:
    """Whether step number `step` of a stage, from 1, is kept after so many steps."""
    return step == 1 or step % interval(steps) == 0


@dataclass(frozen=True)
class _Step:
    """What one step gave; its tensors are read later."""

    total: int
    """The number of the step in the whole trial"""
    names: tuple[str, ...]
    numbers: list[Tensor]
    """Scalars of the device, one for each of the first names"""
    rates: tuple[float, ...]
    """Learning rates, for the names that are left"""


class StepCurves:
    """Takes what the steps of a stage give, and puts it into the outcome when someone reads it.

    To read a number from a GPU, the CPU has to wait for it, so the numbers are read together.
    """

    def __init__(self) -> None:
        self._stage = ""
        self._unread: list[_Step] = []
        self._steps, self._began = 0, 0

    def note(
        self,
        stage: Stage,
        step: int,
        total: int,
        terms: Sequence[Tensor],
        norm: Tensor | None,
        rates: Mapping[str, float],
    ) -> None:
        """Take a step where it is to be kept.

        step: its number in the stage, total: that in the whole trial, both from 1. terms: of
        each batch of the step, (losses of the stage,). norm: a scalar, or None where the engine has
        none. rates: configuration field -> learning rate.
        """
        self._stage, self._steps, self._began = stage.name, step, total - step
        if not is_kept(step, step):
            return
        names = [loss_metric(name) for name in stage.losses]
        mean = terms[0] if len(terms) == 1 else torch.stack(list(terms)).mean(0)
        numbers = list(mean.unbind())
        if norm is not None:
            names.append(GRADIENT_NORM)
            numbers.append(norm.detach().to(mean))
        names += [rate_metric(field) for field in rates]
        self._unread.append(_Step(total, tuple(names), numbers, tuple(rates.values())))

    def read(self, outcome: Outcome) -> None:
        """Move what was taken into the outcome, and drop what is no longer to be kept."""
        unread = [number for step in self._unread for number in step.numbers]
        numbers = iter(torch.stack(unread).tolist() if unread else ())
        for step in self._unread:
            values = [*(next(numbers) for _ in step.numbers), *step.rates]
            outcome.curves += [
                Point(step=step.total, stage=self._stage, metric=name, value=value)
                for name, value in zip(step.names, values, strict=True)
            ]
        self._unread.clear()
        first, every = self._began + 1, interval(self._steps)
        outcome.curves = [
            point
            for point in outcome.curves
            if point["stage"] != self._stage
            or point["step"] == first
            or (point["step"] - self._began) % every == 0
        ]
