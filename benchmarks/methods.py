"""Training speed and memory of every method, relative to SimCSE with the same encoder and data.

Each method does a few steps in a process of its own, so that the peak memory is its own. The
methods take turns over the rounds. Beside them stands what DiffAug's Table 4 reports for whole
supervised runs on NLI. It needs HARNESS_HUB.

    python benchmarks/methods.py [--setting sup] [--encoder mini-bert] [--batch 64] [--steps 6]
        [--rounds 2] [--threads 1] [--batching shuffled] [--methods promptbert diffaug]

A short try: `python benchmarks/methods.py --encoder tiny-bert --batch 8 --steps 1 --rounds 1
--methods promptbert`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any, get_args

import torch

from harness.choices import Batching
from harness.device import device
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer
from harness.training.memory import peak_memory
from harness.training.seeds import seed_everything

REPORTED = {"simcse": (36, 10), "promptbert": (48, 13), "diffaug": (65, 15)}
"""DiffAug's Table 4: minutes and GB of supervised runs, with batch 128 on one GPU"""
STAGE_1 = 1250 / 6462
"""Steps of DiffAug's stage 1 per batch of stage 2, supervised (diffaug.md, sections 3 and 4)"""
METHODS = {
    "unsup": ("simcse", "promptbert", "consert", "esimcse", "dcpcse", "d2cse", "diffcse"),
    "semisup": ("simcse", "promptbert", "consert", "diffaug"),
    "sup": ("simcse", "promptbert", "dcpcse", "d2cse", "diffcse", "diffaug"),
}
WARMUP_STEPS = 2

Measured = dict[str, float]
"""`seconds` of a batch, `sentences_per_second`, and peak `mebibytes`"""


def measure(name: str, values: Mapping[str, object], steps: int, threads: int) -> Measured:
    """Train each stage of a method for some steps, and measure the last one.

    The seconds of DiffAug include its share of stage 1.
    """
    torch.set_num_threads(threads)
    plugin = registry.load(name)
    known = plugin.config_type.model_fields
    config = resolve(plugin, {key: value for key, value in values.items() if key in known})
    # With the same seed, every round has the same batches.
    seed_everything(0)
    declared = plugin.declare(config)
    stages = declared.stages
    kit = Kit(declared, device())
    kit.build_shared()
    with peak_memory(kit.device) as memory:
        method = kit.build()
        seconds = []
        for stage in stages:
            for number in (WARMUP_STEPS, steps):
                # A shared stage would otherwise be read from the cache in the second run.
                declared.stages = [replace(stage, max_steps=number, shared=None, epochs=None)]
                outcome = Trainer(method, kit, 0, evaluate=lambda: 0.0, report=lambda _: None).run()
            seconds.append(outcome.seconds / outcome.steps / stage.accumulation)
    first = STAGE_1 * seconds[0] if len(seconds) == 2 else 0.0
    return {
        "seconds": seconds[-1] + first,
        "sentences_per_second": outcome.sentences / outcome.seconds,
        "mebibytes": memory.gpu or memory.host,
    }


def in_own_process(name: str, values: Mapping[str, object], *settings: Any) -> Measured:
    """Call `measure` in a new process. Raises UserError with the last line of its error."""
    command = [sys.executable, __file__, "--child", json.dumps([name, values, *settings])]
    # The libraries under torch read the number of threads when they are imported.
    environment = {**os.environ, "OMP_NUM_THREADS": str(settings[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise UserError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    measured: Measured = json.loads(done.stdout.splitlines()[-1])
    return measured


def line(name: str, measured: list[Measured], base: list[Measured], supervised: bool) -> str:
    """The line of a method; time and memory are medians of the ratios to SimCSE in each round."""

    def ratio(figure: str) -> float:
        return median(
            own[figure] / other[figure] for own, other in zip(measured, base, strict=True)
        )

    rate = median(own["sentences_per_second"] for own in measured)
    reported = "-"
    if supervised and name in REPORTED:
        pairs = zip(REPORTED[name], REPORTED["simcse"], strict=True)
        minutes, gigabytes = (own / other for own, other in pairs)
        reported = f"{minutes:.2f}, {gigabytes:.2f}"
    return f"{name:11} {rate:11.1f} {ratio('seconds'):12.2f} {ratio('mebibytes'):14.2f}  {reported}"


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setting", choices=list(METHODS), default="sup")
    parser.add_argument("--methods", nargs="+", help="beside simcse; default: all of the setting")
    parser.add_argument("--encoder", default="mini-bert")
    parser.add_argument("--batch", type=int, default=64, help="items in a batch")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--batching",
        choices=get_args(Batching),
        default="shuffled",
        help="as in the papers, or by length",
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Print a line for each method: sentences per second, and time and memory against SimCSE."""
    options = arguments()
    if options.child:
        print(json.dumps(measure(*json.loads(options.child))))
        return
    values: dict[str, object] = {
        "setting": options.setting,
        "encoder": options.encoder,
        "batch_size": options.batch,
        "batching": options.batching,
        "precision": "auto",
        "stage1_batch_size": options.batch,
        "auxiliary_batch_size": options.batch,
        "accumulation": 1,
        "generator": options.encoder,
    }
    names = dict.fromkeys(["simcse", *(options.methods or METHODS[options.setting])])
    measurements: dict[str, list[Measured]] = {name: [] for name in names}
    settings = (options.steps, options.threads)
    for _ in range(options.rounds):
        for name, measured in measurements.items():
            measured.append(in_own_process(name, values, *settings))
    print("method      sentences/s  time/simcse  memory/simcse  reported time, memory")
    for name, measured in measurements.items():
        print(line(name, measured, measurements["simcse"], options.setting == "sup"))


if __name__ == "__main__":
    main()
