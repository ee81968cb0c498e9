"""The steps of a stage: losses, gradients, an update, and the time that they take."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from harness.device import in_precision, resolve_precision, synchronise
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.ranks import seed_own
from harness.training.feeding import StepBatches
from harness.training.finite_losses import FiniteLosses
from harness.training.optimisers import StageOptimiser
from harness.training.progress import Outcome
from harness.training.step_curves import StepCurves


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
        """When the steps began that the outcome's seconds do not count yet"""

    def run(
        self,
        outcome: Outcome,
        optimiser: StageOptimiser,
        feed: Iterator[StepBatches],
        step: int,
    ) -> Tensor:
        """Step number `step` of the stage, on as many batches as it accumulates; their mean loss.

        The outcome counts it.
        """
        if self._began is None:
            self._began = time.perf_counter()
        stage, losses, terms, rows = optimiser.stage, [], [], 0
        seed_own(self.seed, self.kit.declared.stages.index(stage), step)
        for number in range(stage.accumulation):
            # Negatives are those of one batch, so each batch has its own loss and backward pass.
            batch = next(feed)
            with optimiser.accumulating(last=number == stage.accumulation - 1):
                loss, parts = self._loss(optimiser, batch, step, outcome.steps + 1)
                loss = loss / stage.accumulation
                optimiser.backward(loss)
            losses.append(loss.detach())
            terms.append(parts)
            rows += sum(len(batch[name].input_ids) for name in stage.streams)
        norm = optimiser.step(step)
        outcome.steps += 1
        outcome.sentences += rows
        self._curves.note(stage, step + 1, outcome.steps, terms, norm, optimiser.rates)
        return torch.stack(losses).sum()

    def settle(self, outcome: Outcome) -> None:
        """Count the seconds of the steps up to now, which a GPU may still have to compute.

        The outcome gets their curves. Raises TrialFailure when one of their losses is not finite.
        """
        if self._began is not None:
            synchronise(self.kit.device)
            outcome.seconds += time.perf_counter() - self._began
            self._began = None
        self._losses.check()
        self._curves.read(outcome)

    def _loss(
        self, optimiser: StageOptimiser, batch: StepBatches, step: int, counted: int
    ) -> tuple[Tensor, Tensor]:
        """The loss of a batch, and the losses of which it is the weighted sum, (losses,).

        `counted`: the number of the step in the whole trial, from 1.
        """
        stage = optimiser.stage
        with in_precision(self.precision, self.kit.device):
            losses = optimiser.losses(batch, stage)
        # Outside of autocast, in which a sum of losses would lose their last digits.
        plain = {name: losses[name].float() for name in stage.losses}
        weighted = [
            (weight(step) if callable(weight) else weight) * plain[name]
            for name, weight in stage.losses.items()
        ]
        parts = self._losses.note(stage, counted, plain)
        return torch.stack(weighted).sum(), parts
