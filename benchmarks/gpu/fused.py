"""Trials of a frozen-encoder method one by one, and fused into one forward pass.

The trials have learning rates of their own, and seeds of their own. Fused, each has the prompts,
the optimiser, the batches and the random numbers that it has alone; the encoder reads the rows of
all trials in one pass, and one backward pass follows. It prints how many times as fast the steps of
the fused trials are, and how far from the same trials alone they end. In bf16 the last digits grow
apart, and on a GPU trials alone have flash attention with dropout masks of its own, so compare with
`--set precision=fp32`.

    python benchmarks/gpu/fused.py [--method dcpcse] [--trials 4 16] [--steps 50] [--batch 64]
        [--encoder FOLDER] [--set KEY=VALUE]

Without `--encoder` it has random weights of the shape of BERT base; the texts are embedded ones.
A short try, which also works without a GPU:
`python benchmarks/gpu/fused.py --encoder tiny-bert --trials 3 --steps 3 --batch 8`.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from first_gradients import farthest_gradient, first_gradients
from fused_pass import FusedEncoder, RandomState, request_of
from inputs import Inputs, timed
from meeting import Meeting
from torch import Tensor

from harness.data.batching import TextBatch
from harness.device import device
from harness.encoders.backbone import Encoder
from harness.encoders.reach import Reach
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.feeding import fed, made, stage_streams
from harness.training.loop import Trainer
from harness.training.optimisers import StageOptimiser
from harness.training.seeds import seed_everything
from harness.training.steps import GRADIENT_NORM, Steps, loss_metric, rate_metric


@dataclass
class Trial:
    """A trial as it begins, and what it has become."""

    kit: Kit
    seed: int
    curves: dict[tuple[int, str], Any] = field(default_factory=dict)
    """(step, name of a loss or of the norm of all gradients) -> value"""
    weights: dict[str, Tensor] = field(default_factory=dict)
    dev: float = 0.0
    """Its score on the dev set of the embedded data"""
    seconds: float = 0.0
    """Seconds of its steps alone; fused, the first trial has those of all"""

    @cached_property
    def steps(self) -> Steps:
        """Module that computes its losses."""
        return Steps(self.kit, self.seed)

    def built(self) -> Any:
        """Its method, with the random numbers of its seed."""
        seed_everything(self.seed)
        return self.kit.build()


def alone(trial: Trial) -> None:
    """Train by the harness's own loop."""
    method = trial.built()
    outcome = Trainer(method, trial.kit, trial.seed, lambda: 0.0, lambda _: None).run()
    trial.seconds = outcome.seconds
    trial.curves = {
        (point["step"], point["metric"]): point["value"]
        for point in outcome.curves
        if not point["metric"].startswith(rate_metric(""))
    }
    _note(trial, method)


def fused(trials: Sequence[Trial]) -> None:
    """Train all of them in step."""
    methods, states, feeds, optimisers = [], [], [], []
    with ExitStack() as stack:
        for trial in trials:
            method = trial.built().train()
            stage = trial.kit.declared.stages[0]
            streams = stage_streams(method, trial.kit, stage, trial.seed)
            steps = stage.steps(len(next(iter(streams.values())).items))
            optimisers.append(StageOptimiser(stage, method, trial.kit.config, steps))
            batches = made(method, stage, streams, 0)
            feeds.append(stack.enter_context(fed(batches, trial.kit.device)))
            methods.append(method)
            states.append(RandomState(trial.kit.device))
        meeting = Meeting(FusedEncoder(trials[0].kit.encoder().to(device())), states)
        for number, method in enumerate(methods):
            _meet(method.encoder, meeting, number)
        trials[0].seconds = timed(
            lambda: [_step(trials, optimisers, feeds, meeting, step) for step in range(steps)]
        )
    for trial, method in zip(trials, methods, strict=True):
        del method.encoder._run
        _note(trial, method)


def _step(
    trials: Sequence[Trial],
    optimisers: Sequence[StageOptimiser],
    feeds: Sequence[Any],
    meeting: Meeting,
    step: int,
) -> None:
    """One step of every trial."""

    def loss(number: int) -> Tensor:
        trial, optimiser = trials[number], optimisers[number]
        value, terms = trial.steps._loss(optimiser, next(feeds[number]), step)
        names = map(loss_metric, optimiser.stage.losses)
        trial.curves |= {(step + 1, name): term for name, term in zip(names, terms, strict=True)}
        return value

    losses = meeting.run([lambda number=number: loss(number) for number in range(len(trials))])
    # No weight belongs to two trials, so the gradient of the sum is each one's own.
    torch.stack(losses).sum().backward()
    for trial, optimiser in zip(trials, optimisers, strict=True):
        trial.curves[step + 1, GRADIENT_NORM] = optimiser.step(step)


def _meet(encoder: Encoder, meeting: Meeting, number: int) -> None:
    """Let the passes of a trial's encoder go to the meeting."""

    def run(batch: TextBatch, reach: Reach, **_: Any) -> tuple[Any, Any]:
        request = request_of(encoder, batch, reach, meeting.states[number], encoder._where)
        return meeting.ask(number, request), request.layout

    encoder._run = run


def _note(trial: Trial, method: Any) -> None:
    trial.weights = {
        name: weight.detach().clone()
        for name, weight in method.named_parameters()
        if weight.requires_grad
    }
    trial.dev = suite("graded").score_dev(Embedder(method, trial.kit))


def trials_of(method: str, values: Mapping[str, object], count: int) -> list[Trial]:
    """Trials with learning rates and seeds of their own."""
    plugin = registry.load(method)
    fields = plugin.config_type.model_fields
    known = {name: value for name, value in values.items() if name in fields}
    configurations = [known | {"learning_rate": 0.01 / (1 + number)} for number in range(count)]
    return [
        Trial(Kit(plugin.declare(resolve(plugin, each)), device()), number)
        for number, each in enumerate(configurations)
    ]


def farthest(one: Sequence[Trial], other: Sequence[Trial]) -> dict[str, float]:
    """Quantity -> the largest difference between a trial alone and the same one fused.

    That of losses and of norms is a share of the value.
    """
    pairs = list(zip(one, other, strict=True))
    curves = [
        (step, abs(float(second.curves[step, name]) / value - 1))
        for first, second in pairs
        for (step, name), value in first.curves.items()
    ]
    return {
        "losses and norms of gradients, first step": max(far for step, far in curves if step == 1),
        "losses and norms of gradients, all steps": max(far for _, far in curves),
        "trained weights": max(
            float((first.weights[name] - second.weights[name]).abs().max())
            for first, second in pairs
            for name in first.weights
        ),
        "dev scores": max(abs(first.dev - second.dev) for first, second in pairs),
    }


def compare(
    inputs: Inputs,
    method: str,
    encoder: str,
    counts: Sequence[int],
    *,
    steps: int,
    batch: int,
    **values: object,
) -> None:
    """Print what so many trials gain when they are fused, and how far they are from alone."""
    common: dict[str, object] = {
        "encoder": encoder, "sentences": str(inputs.texts), "max_length": 32, "suite": "graded",
        "generator": encoder, "max_steps": steps, "batch_size": batch,
        "evaluation_interval": steps, **values,
    }  # fmt: skip
    alone(trials_of(method, common | {"max_steps": 2}, 1)[0])  # the first one loads kernels
    for count in counts:
        one, other = (trials_of(method, common, count) for _ in range(2))
        with first_gradients() as separate:
            for trial in one:
                alone(trial)
        with first_gradients() as joint:
            fused(other)
        apart, together = sum(trial.seconds for trial in one), other[0].seconds
        print(f"{method}, {count} trials fused: {apart / together:.2f} times as fast")
        found = {"gradients, first step": farthest_gradient(separate, joint)}
        for name, value in (found | farthest(one, other)).items():
            print(f"  {name}: {value:.1e}")


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", default="dcpcse")
    parser.add_argument("--trials", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--encoder")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(Path(folder), short=device().type == "cpu")
        encoder = asked.encoder or inputs.encoder("base")
        values = dict(each.split("=", 1) for each in asked.set)
        compare(
            inputs, asked.method, encoder, asked.trials, steps=asked.steps, batch=asked.batch,
            **values,
        )  # fmt: skip


if __name__ == "__main__":
    main()
