"""The training loop: a method's stages in order; the best weights on dev are restored.

Batches are a function of seed and step, so a position in the streams is the number of the step.
"""

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from harness.device import ROUNDED, random_state_kept
from harness.encoders.rounded import rounded_linears
from harness.errors import Interrupted, Pruned
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.ranks import agreed, has_ranks, rank_number
from harness.training.engines import stage_optimiser
from harness.training.feeding import fed, made, patience_spent, stage_streams
from harness.training.optimisers import StageOptimiser
from harness.training.parameters import changing_names, moved_names, trained_names
from harness.training.progress import Outcome, Point, Progress
from harness.training.saved_state import (
    Checkpoint,
    SavedState,
    current,
    from_rank_0,
    load_weights,
    readable,
    state,
)
from harness.training.seeds import random_states, seed_stage, set_random_states
from harness.training.shared_stages import StageStates
from harness.training.steps import Steps


def snapshot(
    method: nn.Module, names: Collection[str], optimiser: StageOptimiser, outcome: Outcome
) -> SavedState:
    """State that the training needs to go on from here.

    `names`: the parameters that may have changed. The tensors are not copies.
    """
    kept = asdict(replace(outcome, best_state={}))
    del kept["best_state"]
    return SavedState(
        weights=current(method, names),
        best=outcome.best_state,
        optimiser=optimiser.tensors(),
        facts={"outcome": kept, "random": random_states(), "scaler": optimiser.scaler.state_dict()},
    )


def restore(
    saved: SavedState, method: nn.Module, names: Collection[str], optimiser: StageOptimiser
) -> Outcome:
    """Bring optimiser and random sources to the state of a snapshot; its outcome.

    The method has the weights of the snapshot already. `names`: the parameters that all stages
    change. Those that the snapshot does not have stay as they are in the best state.
    """
    best: dict[str, Tensor] = {}
    if saved.best:
        there = state(method, names)
        best = there | {
            name: value.to(there[name], copy=True) for name, value in saved.best.items()
        }
    if saved.optimiser:
        optimiser.load(saved.optimiser)
        if scaling := saved.facts["scaler"]:  # empty where losses were not scaled
            optimiser.scaler.load_state_dict(scaling)
    set_random_states(saved.facts["random"])
    return Outcome(**saved.facts["outcome"], best_state=best)


REPORT_SECONDS = 2.0
"""Least time between two reports without a dev score"""


class Trainer:
    """Runs a method's stages."""

    def __init__(
        self,
        method: Method[Any],
        kit: Kit,
        seed: int,
        evaluate: Callable[[], float],
        report: Callable[[Progress], None],
        checkpoint: Checkpoint | None = None,
        scored: str = "",
    ) -> None:
        """`evaluate` gives the dev score (higher is better); `report` hears of the progress.

        `checkpoint`: where the training is saved, and from where it goes on; None: nowhere.
        `scored`: the digest of the data and the code behind `evaluate`.
        """
        config = kit.config
        assert isinstance(config, TrainingConfig), f"{kit.declared.name} trains nothing"
        self.method, self.kit, self.config, self.seed = method, kit, config, seed
        self.evaluate, self.report, self.checkpoint = evaluate, report, checkpoint
        self.scored = scored
        self.outcome = Outcome()
        self.steps = Steps(kit, seed)
        self._reported = time.monotonic()
        self._requested_states: Collection[int] = ()
        self._optimiser: StageOptimiser | None = None
        """Optimiser of the stage that runs; DeepSpeed's sharded weights are read through it"""
        self._interval = self.config.evaluation_interval
        """Steps between two evaluations on dev, in the stage that runs"""
        self._epoch: int | None = None
        """Steps of an epoch where its end counts for evaluations, in the stage that runs"""
        self._reported_upto = (0, 0)
        """Points of the history, and the step of the curves, up to which reports were sent"""
        self._pruned = False
        """Whether the training is to end after this step"""

    def run(self) -> Outcome:
        """Train every stage, restore the best weights on dev, and say what it took.

        The training ends early when `report` raises Pruned. Raises TrialFailure when a loss is not
        finite, and Interrupted when the trial gives way.
        """
        stages = self.kit.declared.stages
        self._open_streams()
        saved = from_rank_0(self.checkpoint.read() if self.checkpoint else None)
        begin = saved.facts["stage"] if saved else 0
        try:
            for number in range(begin, len(stages)):
                if number:  # how long the stages before it were must not matter for this one
                    seed_stage(self.seed, number)
                self._run_stage(number, saved)
                self._end_stage()
                saved = None
                if stages[number].selection.own_run:
                    load_weights(self.method, self.outcome.forget_best())
        except Pruned:
            self.outcome.pruned = True
            self._end_stage()
        load_weights(self.method, self.outcome.best_state)
        self.outcome.best_state = {}
        return self.outcome

    def run_shared_stage(self, steps: Collection[int]) -> None:
        """Run the first stage, which trials share, and keep its states; nothing else is trained.

        `steps`: those after which trials end this stage. Raises TrialFailure as `run` does.
        """
        self._open_streams()
        self._requested_states = steps
        self._run_stage(0, None)

    def _open_streams(self) -> None:
        """Open the streams of every stage, whose length follows from them."""
        stages = self.kit.declared.stages
        self._changing = changing_names(self.method, stages)
        # All streams are opened before the first step: a corpus that is too small for a later stage
        # should stop the trial now.
        self._streams = [stage_streams(self.method, self.kit, each, self.seed) for each in stages]
        self._lengths = [
            stage.steps(len(next(iter(streams.values())).items))
            for stage, streams in zip(stages, self._streams, strict=True)
        ]

    def _run_stage(self, number: int, saved: SavedState | None) -> None:
        """Run stage `number`; `saved`: the checkpoint in this stage from which it goes on."""
        stage, streams = self.kit.declared.stages[number], self._streams[number]
        steps = self._lengths[number]
        start = saved.facts["step"] if saved else 0
        self._interval = self.kit.declared.evaluation_interval(stage)
        items = len(next(iter(streams.values())).items)
        self._epoch = stage.steps_in_epoch(items) if stage.selection.epoch_ends else None
        states = self._states(stage)
        with states.held() if states else nullcontext():
            if stage.shared is not None:  # another trial may be further than the checkpoint
                latest, found = states.latest(start, steps) if states else (start, None)
                start, saved = agreed(latest), from_rank_0(found) or saved
            if saved:
                load_weights(self.method, saved.weights)
            optimiser = self._stage_optimiser(stage, steps)
            if saved:
                self.outcome = restore(saved, self.method, self._changing, optimiser)
            # An earlier stage may have ended before its last step.
            self._total = self.outcome.steps - start + sum(self._lengths[number:])
            trainable = max(self.outcome.trainable_parameters, optimiser.trainable_count)
            self.outcome.trainable_parameters = trainable
            self.method.train()
            if start == 0:
                self.outcome.remember(stage.name, self._watched(stage))
            batches = made(self.method, stage, streams, start * stage.accumulation)
            with fed(batches, self.kit.device) as feed, self._rounded(stage):
                for step in range(start, steps):
                    if patience_spent(stage, self.outcome):
                        break
                    loss = self.steps.run(self.outcome, optimiser, feed, step)
                    self._evaluate(loss, stage, step + 1, steps)
                    self._save(number, step + 1, steps, optimiser, states)
        self.steps.synchronise(self.outcome)

    def _rounded(self, stage: Stage) -> AbstractContextManager[None]:
        """A block in which the weights that the stage leaves alone are rounded already."""
        # Of sharded weights nobody has the whole, and a copy of it would not fit.
        whole = not (self.config.shards_weights and has_ranks())
        kind = ROUNDED.get(self.steps.precision) if whole else None
        return rounded_linears(self.method, kind, moved_names(self.method, stage))

    def _stage_optimiser(self, stage: Stage, steps: int) -> StageOptimiser:
        """The optimiser of the stage, in the place of that of an earlier one."""
        scaling = self.kit.device.type if self.steps.precision == "fp16" else None
        if self._optimiser:
            self._optimiser.close()
        self._optimiser = stage_optimiser(stage, self.method, self.config, steps, scaling)
        return self._optimiser

    def _end_stage(self) -> None:
        """Let the optimiser go, with its memory, unless sharded weights are read through it."""
        if self._optimiser and not self.config.shards_weights:
            self._optimiser.close()
            self._optimiser = None

    def _save(
        self,
        number: int,
        step: int,
        steps: int,
        optimiser: StageOptimiser,
        states: StageStates | None,
    ) -> None:
        """Save the training after `step` steps of stage `number` where that is due.

        Raises Interrupted when the trial is asked to give way, and Pruned when it is to end.
        """
        checkpoint = self.checkpoint
        shared = states is not None and states.due(step, steps)
        leaves = checkpoint is not None and checkpoint.asked()
        ends = self.outcome.steps == self._total
        due = checkpoint is not None and (leaves or checkpoint.due(ends=ends))
        # Rank 0 hears of requests and knows the time; all must do the same.
        shared, due, leaves, pruned = agreed((shared, due, leaves, self._pruned))
        if pruned:
            raise Pruned
        if not (shared or due):
            return
        self.steps.synchronise(self.outcome)
        saved = snapshot(self.method, self._changing, optimiser, self.outcome)
        if states and shared:
            states.keep(step, saved)
        if checkpoint and due:
            saved.facts |= {"stage": number, "step": step}
            checkpoint.write(saved)
        if leaves:
            raise Interrupted(f"stopped after {self.outcome.steps} of {self._total} steps")

    def _states(self, stage: Stage) -> StageStates | None:
        """The states on disk of a stage that trials share, which rank 0 keeps; else None."""
        if stage.shared is None or rank_number() > 0:
            return None
        own = {*trained_names(self.method, stage), *moved_names(self.method, stage)}
        folder = StageStates.folder_of(stage, self.kit, self.seed, self._interval, self.scored)
        return StageStates(folder, self._changing - own, self._requested_states)

    def _evaluate(self, loss: Tensor, stage: Stage, step: int, steps: int) -> None:
        """Score on dev when it is time, remember the scores, and report.

        It is time every N steps and at the end of a run, and where the stage asks for it at the end
        of every epoch; `step` is the number of steps of the stage that are done.
        """
        run = self.outcome.steps - self.outcome.run_began
        done = step % self._epoch if self._epoch else run
        ends_own_run = stage.selection.own_run and step == steps
        last = self.outcome.steps == self._total or ends_own_run
        due = last or done % self._interval == 0
        leads = rank_number() == 0
        if not due and not (leads and time.monotonic() - self._reported >= REPORT_SECONDS):
            return
        # Reading a loss waits for the GPU, so it is read only when there is something to report.
        self.steps.synchronise(self.outcome)
        dev = self._choose(stage) if due else None
        self._reported, value = time.monotonic(), loss.item()
        if dev is not None:
            values = {"loss": value, "dev": dev, **self._watched(stage)}
            self.outcome.remember(stage.name, values)
            if patience_spent(stage, self.outcome):
                self._total -= steps - step
        # Only the last stage gives the score that selects, so only its evaluations can be compared.
        counts = due and stage is self.kit.declared.stages[-1]
        if leads:
            progress = Progress(
                step=self.outcome.steps,
                total_steps=self._total,
                loss=value,
                dev=dev,
                sentences_per_second=self.outcome.sentences / self.outcome.seconds,
                evaluation=self.outcome.evaluations(stage.name) if counts else None,
                best_dev=self.outcome.best_dev,
                points=self._unreported_points(),
            )
            try:
                self.report(progress)
            except Pruned:
                self._pruned = True

    def _unreported_points(self) -> list[Point]:
        """The points along the training that no report has had, also those of a checkpoint."""
        points, step = self._reported_upto
        new = self.outcome.history[points:]
        new += [point for point in self.outcome.curves if point["step"] > step]
        self._reported_upto = (len(self.outcome.history), self.outcome.steps)
        return sorted(new, key=lambda point: point["step"])

    def _watched(self, stage: Stage) -> dict[str, float]:
        """Quantities that the method watches; its mode and the random state stay as they were."""
        if type(self.method).watched is Method.watched:
            return {}  # what it reads would be made whole for nothing
        self.method.eval()
        with torch.no_grad(), random_state_kept(self.kit.device), readable(self.method):
            found = self.method.watched(stage)
        self.method.train()
        return found

    def _choose(self, stage: Stage) -> float:
        """Score on dev, and keep what training changes when the score is strictly better.

        Where the last weights count, they are kept whatever their score is.
        """
        # Machines may differ in the last digits, and all ranks must choose alike.
        score, best = agreed(self.evaluate()), self.outcome.best_dev
        # Of equal scores the first one counts (diffaug.md, section 5).
        if stage.selection.keep == "last" or best is None or score > best:
            self.outcome.best_dev, self.outcome.best_step = score, self.outcome.steps
            self.outcome.best_state = state(self.method, self._changing)
        return score
