"""Several trials on one GPU: in processes of their own, with and without MPS, and fused."""

import os
import subprocess
import sys
from pathlib import Path

import fused
import pandas
import torch
from inputs import Inputs

import harness
from harness.device import device
from harness.sweeps.cluster.lifetime import PIPES
from harness.sweeps.workers.gpu_share import allowed_fraction

HARNESS = [sys.executable, "-m", "harness"]
SPACE = """\
setting: unsup
suite: graded
select: {{metric: graded-dev}}
search: {{seeds: [42]}}
final: {{seeds: [0]}}
encoders: [{encoder}]
set: {{sentences: {texts}, max_steps: {steps}, batch_size: 64, evaluation_interval: {steps}}}
methods:
  simcse:
    grid:
      learning_rate: [{rates}]
"""


def packing(inputs: Inputs) -> None:
    """Trials per hour of a grid of 8, with one, two and four of them on the GPU at a time."""
    space = inputs.folder / "space.yaml"
    steps = inputs.steps(80)
    rates = ", ".join(f"{number}e-6" for number in range(1, 3 if inputs.short else 9))
    encoder = inputs.encoder("base")
    text = SPACE.format(encoder=encoder, texts=inputs.texts, steps=steps, rates=rates)
    space.write_text(text, "utf-8")
    # The word pieces are made once, and no sweep should pay for them.
    subprocess.run([*HARNESS, "prepare", str(space)], check=True, capture_output=True)
    alone = inputs.folder / "no service"
    alone.mkdir()
    _packed(inputs, space, 1, {})
    if device().type == "cuda":
        for at_a_time in (2, 4):
            _packed(inputs, space, at_a_time, {PIPES: str(alone)})
            _packed(inputs, space, at_a_time, {})


def _packed(inputs: Inputs, space: Path, at_a_time: int, environment: dict[str, str]) -> None:
    """Sweep, and print trials per hour. environment: what keeps the sweep from starting MPS."""
    shares = () if device().type == "cpu" else ("--gpus-per-trial", str(1 / at_a_time))
    store = inputs.folder / f"trials-{at_a_time}-{len(environment)}"
    command = [*HARNESS, "sweep", str(space), "--store", str(store), "--no-dashboard", *shares]
    how = f"{at_a_time} at a time" + (" without MPS" if environment else "")
    done = subprocess.run(
        command, check=False, env=os.environ | environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"the sweep with {how} failed\n{done.stderr[-2000:]}")
    trials = harness.load(store).query("role == 'search'")
    ended = trials["started"] + pandas.to_timedelta(trials["wall_seconds"], unit="s")
    seconds = (ended.max() - trials["started"].min()).total_seconds()
    print(f"{how}: {len(trials) * 3600 / seconds:.0f} trials an hour", flush=True)


def cap(_: Inputs) -> None:
    """The cap on the memory of a trial that shares a GPU."""
    if device().type == "cpu":
        print("there is no GPU")
        return
    total = torch.cuda.get_device_properties().total_memory
    torch.cuda.set_per_process_memory_fraction(allowed_fraction(0.25, total / 2**20))
    try:
        torch.empty(total // 4, dtype=torch.uint8, device=device())
        raise RuntimeError("a quarter of the GPU is more than its trial may have, and it got it")
    except torch.OutOfMemoryError:
        print("a trial with a quarter of the GPU gets no more")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def fused_trials(inputs: Inputs) -> None:
    """Trials of prompts for a frozen encoder, one by one and fused into one pass."""
    counts = [2] if inputs.short else [4, 16]
    fused.compare(
        inputs, "dcpcse", inputs.encoder("base"), counts, steps=inputs.steps(50), batch=64
    )
