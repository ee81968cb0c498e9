"""Steps of a stage: losses, gradients, an update, the time that they take, and their curves.

A record keeps the first step of a stage and every multiple of an interval. The interval is 1 in a
short stage, and doubles when there would be more than KEPT_STEPS steps; what is no multiple of it
is then dropped. So the kept steps follow from the length of the stage alone, and a training that is
stopped and goes on keeps those of an undisturbed one.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from harness.device import in_precision, resolve_precision, synchronise
from harness.errors import TrialFailure
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.stage import Stage
from harness.ranks import seed_own
from harness.training.feeding import StepBatches
from harness.training.optimisers import Done, StageOptimiser
from harness.training.progress import GRADIENT_NORM, Outcome, Point


class FiniteLosses:
    """Watches the losses of every step."""

    def __init__(self, *, at_once: bool) -> None:
        """`at_once`: whether `note` checks, too.

        It should on a CPU. To read a number from a GPU, the CPU has to wait for it, so there the
        losses are collected until someone calls `check`; the failure still names the first step.
        """
        self.at_once = at_once
        self._unread: list[tuple[Stage, int, Tensor]] = []

    def note(self, stage: Stage, step: int, values: Tensor) -> None:
        """Take the losses of a batch: the stage's, in its order, (losses,).

        `step`: the number of the step in the whole trial, from 1. Raises TrialFailure as `check`.
        """
        self._unread.append((stage, step, values))
        if self.at_once:
            self.check()

    def check(self) -> None:
        """Raises TrialFailure when a loss that was noted is not finite; it names the first one."""
        if not self._unread:
            return
        numbers = iter(torch.cat([values for _, _, values in self._unread]).tolist())
        for stage, step, _ in self._unread:
            for name in stage.losses:
                value = next(numbers)
                if not math.isfinite(value):
                    raise TrialFailure(
                        f'the loss "{name}" is {value} in step {step} (stage "{stage.name}")'
                    )
        self._unread.clear()


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
    spacing = 1
    while steps // spacing >= KEPT_STEPS:
        spacing *= 2
    return spacing


def is_kept(step: int, steps: int) -> bool:
    """Whether step number `step` of a stage, from 1, is kept after so many steps."""
    return step == 1 or step % interval(steps) == 0


@dataclass(frozen=True)
class _Step:
    """Results of one step; its tensors are read later."""

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


class Steps:
    """Does the steps of a training, in the precision of its configuration."""

    def __init__(self, kit: Kit, seed: int) -> None:
        """`seed`: that of the trial."""
        assert isinstance(kit.config, TrainingConfig)
        self.kit, self.seed = kit, seed
        self.precision = resolve_precision(kit.config.precision, kit.device)
        self._losses = FiniteLosses(at_once=kit.device.type == "cpu")
        self._curves = StepCurves()
        self._began: float | None = None
        """Time when the steps began that the outcome's seconds do not count yet"""

    def run(
        self, outcome: Outcome, optimiser: StageOptimiser, feed: Iterator[StepBatches], step: int
    ) -> Tensor:
        """Step number `step` of the stage, on as many batches as it accumulates; their mean loss.

        The outcome counts it.
        """
        if self._began is None:
            self._began = time.perf_counter()
        stage = optimiser.stage
        seed_own(self.seed, self.kit.declared.stages.index(stage), step)
        batches = [next(feed) for _ in range(stage.accumulation)]
        done = optimiser.computed(step, batches, partial(self._compute, optimiser, step))
        for terms in done.terms:
            self._losses.note(stage, outcome.steps + 1, terms)
        outcome.steps += 1
        outcome.sentences += sum(
            len(batch[name].input_ids) for batch in batches for name in stage.streams
        )
        self._curves.note(stage, step + 1, outcome.steps, done.terms, done.norm, optimiser.rates)
        return done.loss

    def synchronise(self, outcome: Outcome) -> None:
        """Count the seconds of the steps up to now, which a GPU may still have to compute.

        The outcome gets their curves. Raises TrialFailure when one of their losses is not finite.
        """
        if self._began is not None:
            synchronise(self.kit.device)
            outcome.seconds += time.perf_counter() - self._began
            self._began = None
        self._losses.check()
        self._curves.read(outcome)

    def _compute(
        self, optimiser: StageOptimiser, step: int, batches: Sequence[StepBatches]
    ) -> Done:
        """Losses and gradients of the batches of step number `step` of the stage, and the update.

        Nothing of it may wait for a GPU.
        """
        losses, terms = [], []
        # The rounded copies of weights that autocast makes live until the outermost block of it
        # ends, so all batches share them.
        with in_precision("fp32", self.kit.device):
            for number, batch in enumerate(batches):
                # Negatives are those of one batch, so each has its own loss and backward pass.
                with optimiser.accumulating(last=number == len(batches) - 1):
                    loss, parts = self._loss(optimiser, batch, step)
                    loss = loss / len(batches)
                    optimiser.backward(loss)
                losses.append(loss.detach())
                terms.append(parts)
        return Done(torch.stack(losses).sum(), terms, optimiser.step(step))

    def _loss(
        self, optimiser: StageOptimiser, batch: StepBatches, step: int
    ) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and the losses of which it is the weighted sum, (losses,)."""
        stage = optimiser.stage
        with in_precision(self.precision, self.kit.device):
            losses = named_losses(optimiser.losses(batch, stage), stage)
        # Outside of autocast, in which a sum of losses would lose their last digits.
        plain = {name: loss.float() for name, loss in losses.items()}
        weighted = [
            (weight(step) if callable(weight) else weight) * plain[name]
            for name, weight in stage.losses.items()
        ]
        parts = torch.stack([loss.detach() for loss in plain.values()])
        return torch.stack(weighted).sum(), parts


def named_losses(returned: Any, stage: Stage) -> dict[str, Tensor]:
    """The losses of a stage, each a scalar, among what the `losses` of a plugin has returned.

    Raises TrialFailure where one is missing, or has another shape: its sum would train as well.
    """
    if not isinstance(returned, Mapping) or not stage.losses.keys() <= returned.keys():
        names = list(returned) if isinstance(returned, Mapping) else type(returned).__name__
        raise TrialFailure(f"losses() must return {sorted(stage.losses)}, but it returned {names}")
    losses = {name: returned[name] for name in stage.losses}
    for name, loss in losses.items():
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise TrialFailure(f'the loss "{name}" is not a scalar tensor but {shape}')
    return losses
