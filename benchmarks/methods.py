"""Training speed and memory of every method relative to SimCSE on the same encoder, batch and data.

Each method trains a few updates in a process of its own (so that the peak memory is its own), turn by turn over the
rounds. Beside it what DiffAug's Table 4 reports for whole supervised runs on NLI. Needs HARNESS_HUB.

    python benchmarks/methods.py [--setting sup] [--encoder mini-bert] [--batch 64] [--steps 6] [--rounds 2]
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import torch

from harness.data import batching
from harness.device import device
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.stage import Stage
from harness.training.loop import Trainer
from harness.training.memory import peak_memory
from harness.training.seeds import seed_everything
from harness.trials.trial import resolve

REPORTED = {"simcse": (36, 10), "promptbert": (48, 13), "diffaug": (65, 15)}
"""DiffAug, Table 4: minutes and GB, supervised, batch 128, one GPU"""
STAGE_1 = 1250 / 6462
"""Updates of DiffAug's supervised stage 1 for each of the batches of stage 2 (diffaug.md, sections 3 and 4)"""
METHODS = {
    "unsup": ("simcse", "promptbert", "consert", "esimcse", "dcpcse", "d2cse", "diffcse"),
    "semisup": ("simcse", "promptbert", "consert", "diffaug"),
    "sup": ("simcse", "promptbert", "dcpcse", "d2cse", "diffcse", "diffaug"),
}


def shuffled(
    lengths: np.ndarray, batch_size: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """The papers' batches: items in random order, so that every batch is padded to about the longest text there is."""
    order = generator.permutation(len(lengths))
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def only(stage: Stage, _: object) -> list[Stage]:
    """A method's stages: this one."""
    return [stage]


def measure(
    name: str, values: dict[str, object], steps: int, threads: int, batches: str
) -> dict[str, float]:
    """Seconds per batch (of DiffAug: its share of stage 1 included), sentences per second, peak memory in MiB."""
    torch.set_num_threads(threads)
    if batches == "shuffled":
        batching.length_grouped = shuffled  # type: ignore[assignment]
    plugin = registry.load(name)
    known = plugin.method.config_type.model_fields
    config = resolve(plugin, {key: value for key, value in values.items() if key in known})
    seed_everything(0)
    kit = Kit(plugin.declare(config), device())
    kit.build_shared()
    with peak_memory(kit.device) as memory:
        method = plugin.method(config, kit).to(kit.device)
        seconds = []
        for stage in plugin.method.stages(config):
            for updates in (2, steps):  # the first two warm up
                single = replace(stage, max_steps=updates, shared=None, epochs=None)
                method.stages = partial(only, single)
                outcome = Trainer(method, kit, 0, evaluate=lambda: 0.0, report=lambda _: None).run()
            seconds.append(outcome.seconds / outcome.steps / stage.accumulation)
    first = STAGE_1 * seconds[0] if len(seconds) == 2 else 0.0
    rate = outcome.sentences / outcome.seconds
    return {
        "seconds": seconds[-1] + first,
        "sentences_per_second": rate,
        "mebibytes": memory.gpu or memory.host,
    }


def child(name: str, values: dict[str, object], *settings: object) -> dict[str, float]:
    """`measure` in a process of its own."""
    command = [sys.executable, __file__, "--child", json.dumps([name, values, *settings])]
    environment = {**os.environ, "OMP_NUM_THREADS": str(settings[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise UserError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    """Print one line a method: sentences per second, and time and memory as multiples of SimCSE's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setting", choices=list(METHODS), default="sup")
    parser.add_argument("--methods", nargs="+", help="besides simcse; default: all of the setting")
    parser.add_argument("--encoder", default="mini-bert")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--batches", choices=["grouped", "shuffled"], default="grouped", help="ours, or the papers'"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*json.loads(options.child))))
        return
    values: dict[str, object] = {
        "setting": options.setting, "encoder": options.encoder, "batch_size": options.batch, "precision": "auto",
        "stage1_batch_size": options.batch, "auxiliary_batch_size": options.batch, "accumulation": 1,
        "generator": options.encoder,
    }  # fmt: skip
    names = dict.fromkeys(["simcse", *(options.methods or METHODS[options.setting])])
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name, measured in found.items():
            measured.append(child(name, values, options.steps, options.threads, options.batches))
    base = found["simcse"]
    print("method      sentences/s  time/simcse  memory/simcse  reported time, memory")
    for name, measured in found.items():
        time = median(
            own["seconds"] / other["seconds"] for own, other in zip(measured, base, strict=True)
        )
        memory = median(
            own["mebibytes"] / other["mebibytes"] for own, other in zip(measured, base, strict=True)
        )
        rate = median(own["sentences_per_second"] for own in measured)
        minutes, gigabytes = (
            own / other
            for own, other in zip(REPORTED.get(name, (0, 0)), REPORTED["simcse"], strict=True)
        )
        reported = (
            f"{minutes:.2f}, {gigabytes:.2f}"
            if name in REPORTED and options.setting == "sup"
            else "-"
        )
        print(f"{name:11} {rate:11.1f} {time:12.2f} {memory:14.2f}  {reported}")


if __name__ == "__main__":
    main()
