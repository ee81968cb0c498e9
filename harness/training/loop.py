"""The training loop: a method's stages in order; the best checkpoint on dev is restored."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.device import random_state_kept, resolve_precision
from harness.errors import TrialFailure
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.checkpoints import StageStates, state
from harness.training.optimisers import StageOptimiser
from harness.training.parameters import trained_names
from harness.training.progress import Outcome, Progress
from harness.training.seeds import seed_stage

REPORT_SECONDS = 2.0
"""Least time between two reports without a dev score"""


def stage_streams(
    method: Method[Any], kit: Kit, stage: Stage, seed: int, *, batch_size: int | None = None
) -> dict[str, Stream]:
    """The streams of a stage, by name. `batch_size`: at most so many items in a batch."""
    streams = {}
    for name, size in stage.streams.items():
        corpus = kit.declared.corpora[name]
        options = StreamOptions(
            limit=method.training_pieces,
            batch_size=min(size, batch_size or size),
            seed=seed,
            items=kit.label_subset(corpus),
            group=stage.group,
            text=stage.batches.text,
        )
        streams[name] = Stream(kit.tokens(corpus, method.template), method.template, options)
    return streams


class Trainer:
    """Runs a method's stages."""

    def __init__(
        self,
        method: Method[Any],
        kit: Kit,
        seed: int,
        evaluate: Callable[[], float],
        report: Callable[[Progress], None],
    ) -> None:
        """`evaluate` gives the dev score (higher is better); `report` hears of the progress."""
        config = kit.config
        assert isinstance(config, TrainingConfig), f"{kit.declared.name} trains nothing"
        self.method, self.kit, self.config, self.seed = method, kit, config, seed
        self.evaluate, self.report = evaluate, report
        self.outcome = Outcome()
        self.precision = resolve_precision(config.precision, kit.device)
        self._reported = time.monotonic()

    def run(self) -> Outcome:
        """Train every stage, restore the best weights on dev, and say what it took."""
        stages = self.kit.declared.stages
        self._trained = {name for stage in stages for name in trained_names(self.method, stage)}
        # All streams are opened before the first step: a corpus that is too small for a later stage
        # should stop the trial now.
        streams = [stage_streams(self.method, self.kit, stage, self.seed) for stage in stages]
        lengths = [
            stage.steps(len(next(iter(feed.values())).items))
            for stage, feed in zip(stages, streams, strict=True)
        ]
        self._total = sum(lengths)
        for number, (stage, feed, length) in enumerate(zip(stages, streams, lengths, strict=True)):
            if number:  # how long the stages before it were must not matter for this one
                seed_stage(self.seed, number)
            self._run_stage(stage, feed, length)
            if stage.selection.own_run:
                self.method.load_state_dict(self.outcome.forget_best(), strict=False)
        self.method.load_state_dict(self.outcome.best_state, strict=False)
        self.outcome.best_state = {}
        return self.outcome

    def _run_stage(self, stage: Stage, streams: dict[str, Stream], steps: int) -> None:
        optimiser = StageOptimiser(stage, self.method, self.config, steps)
        trainable = max(self.outcome.trainable_parameters, optimiser.trainable_count)
        self.outcome.trainable_parameters = trainable
        states = self._states(stage, steps)
        with states.held() if states else nullcontext():
            start = 0
            if states:
                start = states.resume(optimiser.torch, self.method, self.outcome, steps)
            feeds = {
                name: stream.batches(start * stage.accumulation) for name, stream in streams.items()
            }
            self.method.train()
            if start == 0:
                self.outcome.remember(stage.name, self._watched(stage))
            for step in range(start, steps):
                loss = self._step(optimiser, feeds, step)
                self._evaluate(loss, stage, step + 1, steps)
                if states:
                    states.keep(step + 1, steps, optimiser.torch, self.method, self.outcome)

    def _states(self, stage: Stage, steps: int) -> StageStates | None:
        """The states on disk of a stage that trials share; None for any other stage."""
        if stage.shared is None:
            return None
        changing = set(trained_names(self.method, stage))
        interval = self._interval(stage, steps)
        return StageStates.of(stage, self.kit, self.seed, interval, changing, self._trained)

    def _step(
        self, optimiser: StageOptimiser, feeds: Mapping[str, Iterator[TextBatch]], step: int
    ) -> Tensor:
        """One optimiser step on as many batches as the stage accumulates; their mean loss."""
        started, losses, rows = time.perf_counter(), [], 0
        stage = optimiser.stage
        for _ in range(stage.accumulation):
            # Negatives are those of one batch, so each batch has its own loss and backward pass.
            batch = {name: next(feed).to(self.kit.device) for name, feed in feeds.items()}
            loss = self._loss(batch, stage, step) / stage.accumulation
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
            rows += sum(len(part.input_ids) for part in batch.values())
        optimiser.step(step)
        self.outcome.steps += 1
        self.outcome.sentences += rows
        self.outcome.seconds += time.perf_counter() - started
        return torch.stack(losses).sum()

    def _loss(self, batch: Mapping[str, TextBatch], stage: Stage, step: int) -> Tensor:
        bf16 = self.precision == "bf16"
        with torch.autocast(self.kit.device.type, torch.bfloat16, enabled=bf16):
            losses = self.method.losses(batch, stage)
        weighted = [  # outside of autocast: in bf16 a sum of losses would lose their last digits
            (weight(step) if callable(weight) else weight) * losses[name].float()
            for name, weight in stage.losses.items()
        ]
        return torch.stack(weighted).sum()

    def _evaluate(self, loss: Tensor, stage: Stage, step: int, steps: int) -> None:
        """Score on dev when it is time, remember the scores, and report.

        It is time every N steps and at the end of a run; `step` is the number of steps done.
        """
        done = self.outcome.steps - self.outcome.run_began
        ends_own_run = stage.selection.own_run and step == steps
        last = self.outcome.steps == self._total or ends_own_run
        due = last or done % self._interval(stage, steps) == 0
        dev = self._checkpoint(stage) if due else None
        if dev is None and time.monotonic() - self._reported < REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        # Reading the loss waits for the GPU, so it is read only when there is something to report.
        value = loss.item()
        if not math.isfinite(value):
            raise TrialFailure(f"the loss is {value} after {self.outcome.steps} steps")
        if dev is not None:
            values = {"loss": value, "dev": dev, **self._watched(stage)}
            self.outcome.remember(stage.name, values)
        rate = self.outcome.sentences / self.outcome.seconds
        self.report(Progress(self.outcome.steps, self._total, value, dev, rate))

    def _watched(self, stage: Stage) -> dict[str, float]:
        """What the method watches now; its mode and the random state stay as they were."""
        self.method.eval()
        with torch.no_grad(), random_state_kept(self.kit.device):
            found = self.method.watched(stage)
        self.method.train()
        return found

    def _interval(self, stage: Stage, steps: int) -> int:
        """Steps between two evaluations on dev.

        With a share of the labels a stage may be shorter than the configured interval, and is then
        evaluated ten times (diffaug.md, section 7).
        """
        interval = stage.selection.evaluation_interval or self.config.evaluation_interval
        if self.config.label_fraction == 1:
            return interval
        return max(1, min(interval, steps // 10))

    def _checkpoint(self, stage: Stage) -> float:
        """Score on dev, and keep what training changes when the score is strictly better.

        Where the last weights count, they are kept whatever their score is.
        """
        score, best = self.evaluate(), self.outcome.best_dev
        # Of equal scores the first one counts (diffaug.md, section 5).
        if stage.selection.keep == "last" or best is None or score > best:
            self.outcome.best_dev, self.outcome.best_step = score, self.outcome.steps
            self.outcome.best_state = state(self.method, self._trained)
        return score
