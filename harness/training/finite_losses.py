"""Notices a loss that is not finite, in the step in which it arises."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from harness.errors import TrialFailure
from harness.plugin.stage import Stage


class FiniteLosses:
    """Watches the losses of every step."""

    def __init__(self, *, at_once: bool) -> None:
        """`at_once`: whether `note` checks, too.

        It should on a CPU. To read a number from a GPU, the CPU has to wait for it, so there the
        losses are collected until someone calls `check`; the failure still names the first step.
        """
        self.at_once = at_once
        self._unread: list[tuple[Stage, int, Tensor]] = []

    def note(self, stage: Stage, step: int, losses: Mapping[str, Tensor]) -> Tensor:
        """Take the losses of a batch: the stage's, in its order, each a scalar; (losses,) of them.

        `step`: the number of the step in the whole trial, from 1. Raises TrialFailure as `check`.
        """
        values = torch.stack([loss.detach() for loss in losses.values()])
        self._unread.append((stage, step, values))
        if self.at_once:
            self.check()
        return values

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
