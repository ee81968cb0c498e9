"""The training loop: every method's stages, one after the other, with the best checkpoint on dev restored."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from harness.data.batching import Stream, TextBatch
from harness.errors import TrialFailure
from harness.kit import Kit
from harness.method import Method, Stage
from harness.training.parameters import count, optimiser_groups, trainable, trained_names
from harness.training.reproducibility import resolve_precision

REPORT_SECONDS = 2.0


@dataclass
class Progress:
    """How far a trial is; sent to whoever watches."""

    step: int
    total_steps: int
    loss: float
    dev: float | None
    sentences_per_second: float


@dataclass
class Outcome:
    """What training did, apart from changing the method."""

    steps: int = 0
    sentences: int = 0
    seconds: float = 0.0
    best_dev: float | None = None
    best_step: int = 0
    trainable_parameters: int = 0
    _best_state: dict[str, Tensor] = field(default_factory=dict, repr=False)


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
        for stage, feed, length in zip(stages, streams, lengths, strict=True):
            self._run_stage(stage, feed, length, sum(lengths))
        self.method.load_state_dict(self.outcome._best_state, strict=False)
        self.outcome._best_state = {}
        return self.outcome

    def _streams(self, stage: Stage) -> dict[str, Stream]:
        corpora = self.method.data(self.config)
        return {
            name: Stream(self.kit.tokens(corpora[name]), self.method.template, self.config.max_length, size, self.seed)
            for name, size in stage.streams.items()
        }

    def _run_stage(self, stage: Stage, streams: dict[str, Stream], updates: int, total: int) -> None:
        groups = trainable(self.method, stage)
        parameters = [parameter for group in groups.values() for parameter in group]
        self.outcome.trainable_parameters = max(self.outcome.trainable_parameters, count(self.method, trained=True))
        optimiser = torch.optim.AdamW(
            optimiser_groups(groups, self.config), weight_decay=self.config.weight_decay, fused=True
        )
        warmup = math.ceil(self.config.warmup_ratio * updates)
        schedule = get_linear_schedule_with_warmup(optimiser, warmup, updates)
        feeds = {name: iter(stream) for name, stream in streams.items()}
        self.method.train()
        for update in range(updates):
            started = time.perf_counter()
            batch = {name: next(feed).to(self.kit.device) for name, feed in feeds.items()}
            loss = self._loss(batch, stage, update)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, self.config.gradient_clipping)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad(set_to_none=True)
            self._count(batch, time.perf_counter() - started)
            self._watch(loss, total, last=self.outcome.steps == total)

    def _loss(self, batch: Mapping[str, TextBatch], stage: Stage, update: int) -> Tensor:
        device = self.kit.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.precision == "bf16"):
            losses = self.method.losses(batch, stage)
        weights = {name: weight(update) if callable(weight) else weight for name, weight in stage.losses.items()}
        return torch.stack([weight * losses[name].float() for name, weight in weights.items()]).sum()

    def _count(self, batch: Mapping[str, TextBatch], seconds: float) -> None:
        self.outcome.steps += 1
        self.outcome.seconds += seconds
        self.outcome.sentences += sum(len(part.input_ids) for part in batch.values())

    def _watch(self, loss: Tensor, total: int, *, last: bool) -> None:
        """Evaluate on dev when it is time (every N updates, and at the end), and report."""
        dev = None
        if last or self.outcome.steps % self.config.evaluation_interval == 0:
            dev = self._checkpoint()
        if dev is None and time.monotonic() - self._reported < REPORT_SECONDS:
            return
        self._reported = time.monotonic()
        value = loss.item()
        if not math.isfinite(value):
            raise TrialFailure(f"the loss is {value} after {self.outcome.steps} updates")
        rate = self.outcome.sentences / self.outcome.seconds
        self.report(Progress(self.outcome.steps, total, value, dev, rate))

    def _checkpoint(self) -> float:
        """Score on dev; strictly better than before: keep what training changes."""
        score = self.evaluate()
        if self.outcome.best_dev is None or score > self.outcome.best_dev:
            self.outcome.best_dev, self.outcome.best_step = score, self.outcome.steps
            self.outcome._best_state = dict(self._changing())
        return score

    def _changing(self) -> Iterator[tuple[str, Tensor]]:
        """Copies of all that any stage trains, and of buffers such as BatchNorm's."""
        for name, value in (*self.method.named_parameters(), *self.method.named_buffers()):
            if name in self._trained or not isinstance(value, nn.Parameter):
                yield name, value.detach().clone()


def _updates(stage: Stage, streams: dict[str, Any]) -> int:
    """Optimiser updates of a stage: its epochs over its first stream, at most `max_steps`."""
    first = next(iter(streams.values()))
    updates = math.ceil(len(first) * stage.epochs)
    return updates if stage.max_steps is None else min(updates, stage.max_steps)
