"""The training loop: every method's stages, one after the other, with the best checkpoint on dev restored."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from harness.data.batching import Stream, TextBatch
from harness.errors import TrialFailure
from harness.kit import Kit
from harness.method import Method, Stage
from harness.training.clipping import clip, clip_released
from harness.training.optimisers import optimiser, parameter_groups, rate_factor
from harness.training.outcome import Outcome, Progress
from harness.training.parameters import count, state, trainable, trained_names
from harness.training.reproducibility import resolve_precision, seed_stage
from harness.training.snapshots import Snapshots

REPORT_SECONDS = 2.0


class Trainer:
    """Runs a method's stages."""

    def __init__(
        self,
        method: Method,
        kit: Kit,
        seed: int,
        evaluate: Callable[[], float],
        report: Callable[[Progress], None],
    ) -> None:
        """`evaluate` gives the dev score (higher is better); `report` is called every few seconds."""
        self.method, self.kit, self.config, self.seed = method, kit, kit.config, seed
        self.evaluate, self.report = evaluate, report
        self.outcome = Outcome()
        self.precision = resolve_precision(self.config.precision, kit.device)
        self._reported = time.monotonic()

    def run(self) -> Outcome:
        """Train every stage, restore the best weights on dev, and say what it took."""
        stages = self.method.stages(self.config)
        self._trained = {name for stage in stages for name in trained_names(self.method, stage)}
        streams = [self._streams(stage) for stage in stages]
        lengths = [_updates(stage, feed) for stage, feed in zip(stages, streams, strict=True)]
        self._total = sum(lengths)
        for number, (stage, feed, length) in enumerate(zip(stages, streams, lengths, strict=True)):
            if number:
                seed_stage(self.seed, number)
            self._run_stage(stage, feed, length)
            if stage.own_run:
                self.method.load_state_dict(self.outcome.forget_best(), strict=False)
        self.method.load_state_dict(self.outcome.best_state, strict=False)
        self.outcome.best_state = {}
        return self.outcome

    def _streams(self, stage: Stage) -> dict[str, Stream]:
        corpora = self.method.data(self.config)
        group = stage.accumulation if stage.accumulation > 1 or stage.full_batches else 0
        return {
            name: Stream(
                self.kit.tokens(corpora[name], self.method.template),
                self.method.template,
                self.method.training_pieces,
                size,
                self.seed,
                items=self.kit.label_subset(corpora[name]),
                group=group,
                text=stage.text,
            )
            for name, size in stage.streams.items()
        }

    def _run_stage(self, stage: Stage, streams: dict[str, Stream], updates: int) -> None:
        run = _StageRun(stage, self.method, self.config, updates)
        self.outcome.trainable_parameters = max(self.outcome.trainable_parameters, run.trainable_count)
        snapshots = None
        if stage.shared is not None:
            changing = set(trained_names(self.method, stage))
            interval = self._interval(stage, updates)
            snapshots = Snapshots.of(stage, self.kit, self.seed, interval, changing, self._trained)
        with snapshots.held() if snapshots else nullcontext():
            start = snapshots.resume(run.optimiser, self.method, self.outcome, updates) if snapshots else 0
            feeds = {name: stream.batches(start * stage.accumulation) for name, stream in streams.items()}
            self.method.train()
            if start == 0:
                self.outcome.remember(stage.name, self._watched(stage))
            for update in range(start, updates):
                loss = self._update(run, feeds, update)
                self._evaluate(loss, stage, update + 1, updates)
                if snapshots:
                    snapshots.keep(update + 1, updates, run.optimiser, self.method, self.outcome)

    def _update(self, run: "_StageRun", feeds: Mapping[str, Iterator[TextBatch]], update: int) -> Tensor:
        """One optimiser step on as many batches as the stage accumulates; their mean loss."""
        started, losses, rows = time.perf_counter(), [], 0
        for _ in range(run.stage.accumulation):
            batch = {name: next(feed).to(self.kit.device) for name, feed in feeds.items()}
            loss = self._loss(batch, run.stage, update) / run.stage.accumulation
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
            rows += sum(len(part.input_ids) for part in batch.values())
        run.step(update, self.config.gradient_clipping)
        self.outcome.steps += 1
        self.outcome.sentences += rows
        self.outcome.seconds += time.perf_counter() - started
        return torch.stack(losses).sum()

    def _loss(self, batch: Mapping[str, TextBatch], stage: Stage, update: int) -> Tensor:
        with torch.autocast(self.kit.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            losses = self.method.losses(batch, stage)
        weights = {name: weight(update) if callable(weight) else weight for name, weight in stage.losses.items()}
        return torch.stack([weight * losses[name].float() for name, weight in weights.items()]).sum()

    def _evaluate(self, loss: Tensor, stage: Stage, update: int, updates: int) -> None:
        """Evaluate on dev when it is time (every N updates, and at the end of a run), remember the scores, report."""
        done = self.outcome.steps - self.outcome.run_began
        last = self.outcome.steps == self._total or (stage.own_run and update == updates)
        dev = self._checkpoint(stage) if last or done % self._interval(stage, updates) == 0 else None
        if dev is None and time.monotonic() - self._reported < REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        value = loss.item()
        if not math.isfinite(value):
            raise TrialFailure(f"the loss is {value} after {self.outcome.steps} updates")
        if dev is not None:
            self.outcome.remember(stage.name, {"loss": value, "dev": dev, **self._watched(stage)})
        rate = self.outcome.sentences / self.outcome.seconds
        self.report(Progress(self.outcome.steps, self._total, value, dev, rate))

    def _watched(self, stage: Stage) -> dict[str, float]:
        """What the method watches now; its mode and the random state are afterwards as they were."""
        self.method.eval()
        with torch.no_grad(), torch.random.fork_rng([self.kit.device] if self.kit.device.type == "cuda" else []):
            found = self.method.watched(stage)
        self.method.train()
        return found

    def _interval(self, stage: Stage, updates: int) -> int:
        """With a share of the labels a stage may be shorter than an interval: ten evaluations then (diffaug.md, 7)."""
        interval = int(stage.evaluation_interval or self.config.evaluation_interval)
        return interval if self.config.label_fraction == 1 else max(1, min(interval, updates // 10))

    def _checkpoint(self, stage: Stage) -> float:
        """Score on dev; strictly better than before (or later, where the last counts): keep what training changes."""
        score = self.evaluate()
        if stage.keep == "last" or self.outcome.best_dev is None or score > self.outcome.best_dev:
            self.outcome.best_dev, self.outcome.best_step = score, self.outcome.steps
            self.outcome.best_state = state(self.method, self._trained)
        return score


class _StageRun:
    """The optimiser of a stage and what it works on."""

    def __init__(self, stage: Stage, method: Method, config: Any, updates: int) -> None:
        groups = trainable(method, stage)
        self.stage = stage
        self.parameters = [parameter for group in groups.values() for parameter in group]
        self.trainable_count = count(method, trained=True)
        self.frozen: list[nn.Parameter] = []
        if stage.clipping == "released":  # its rule needs the gradients of what it does not train
            self.frozen = [parameter for parameter in method.parameters() if not parameter.requires_grad]
            for parameter in self.frozen:
                parameter.requires_grad_(True)
        self.optimiser = optimiser(stage.optimiser, parameter_groups(groups, config), config.weight_decay)
        self.peaks = [group["lr"] for group in self.optimiser.param_groups]
        self.warmup = math.ceil(config.warmup_ratio * updates)
        self.decay_steps = stage.decay_steps or updates

    def step(self, update: int, largest_norm: float) -> None:
        """Clip, update at the schedule's rate, forget the gradients."""
        if self.stage.clipping == "released":
            clip_released(self.parameters, self.frozen, largest_norm)
        else:
            clip(self.parameters, largest_norm)
        factor = rate_factor(self.stage.schedule, update, self.warmup, self.decay_steps)
        for group, peak in zip(self.optimiser.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        self.optimiser.step()
        for parameter in (*self.parameters, *self.frozen):
            parameter.grad = None


def _updates(stage: Stage, streams: dict[str, Stream]) -> int:
    """Optimiser updates of a stage: its epochs over its first stream, at most `max_steps`."""
    if stage.epochs is None:
        assert stage.max_steps is not None, f'stage "{stage.name}" has no end'
        return stage.max_steps
    first = next(iter(streams.values()))
    updates = math.ceil(len(first) * stage.epochs / stage.accumulation)
    return updates if stage.max_steps is None else min(updates, stage.max_steps)
