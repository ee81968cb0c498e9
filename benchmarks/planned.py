"""Planned against measured: short trials of every method, in processor seconds.

Each trial runs in a process of its own, on one thread, after all imports. The plan knows nothing of
it but its configuration and the CPU. Processor seconds do not depend on what else the machine does.
It needs HARNESS_HUB.

    python benchmarks/planned.py [--methods simcse diffaug] [--encoder mini-bert] [--steps 12]
        [--batch 32] [--precision auto]

A short try: `python benchmarks/planned.py --methods simcse --steps 2 --batch 8`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from harness import api
from harness.plugin import registry
from harness.sweeps.devices import estimated, this_cpu

UNTRAINABLE = ("glove", "sentence_transformer")
"""They have no encoder of the kind"""


def measure(name: str, values: Mapping[str, Any]) -> None:
    """Run a trial and print the planned bounds and the processor seconds."""
    import torch

    from harness.trials.run import attempt

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = os.environ.get("HARNESS_CACHE", folder)
        trial = api.trial(name, values, 0)
        planned = estimated(trial, this_cpu())
        attempt(api.trial("pooling", {"encoder": "tiny-bert", "suite": "graded"}, 0),
                lambda _: None, Path(folder) / "first", Path(folder) / "running")  # fmt: skip
        started = time.process_time()
        record = attempt(trial, lambda _: None, Path(folder) / "weights", Path(folder) / "running")
        spent = time.process_time() - started
    assert planned.known
    print(json.dumps([planned.middle, spent, record.status, record.reason]))


def cases(methods: list[str] | None) -> list[tuple[str, str]]:
    """Every method in every setting."""
    return [
        (name, setting)
        for name in methods or registry.names()
        if name not in UNTRAINABLE
        for setting in get_args(registry.load(name).config_type.model_fields["setting"].annotation)
    ]


def main() -> None:
    """Print a line for each method and setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--encoder", default="mini-bert")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(*json.loads(options.child))
        return
    wanted = {
        "encoder": options.encoder, "max_steps": options.steps, "batch_size": options.batch,
        "stage1_steps": options.steps, "stage1_batch_size": options.batch, "accumulation": 1,
        "auxiliary_batch_size": options.batch, "suite": "graded", "generator": options.encoder,
        "teacher": options.encoder, "second_teacher": None,
        "precision": options.precision, "evaluation_interval": 10 * options.steps,
        "corpus": "snli-dev", "pairs": "snli-dev", "scored_pairs": "stsb-train",
    }  # fmt: skip
    print("| method | setting | planned | measured | ratio |\n|---|---|---|---|---|")
    for name, setting in cases(options.methods):
        known = registry.load(name).config_type.model_fields
        values = {key: value for key, value in wanted.items() if key in known}
        if name == "clsr":
            values |= {"pairs": "snli-heldout-entailments", "batch_size": 512, "max_steps": 100}
        if name == "isbert":
            values["sentences"] = "snli-dev"
        values["setting"] = setting
        command = [sys.executable, __file__, "--child", json.dumps([name, values])]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if done.returncode:
            print(f"| {name} | {setting} | {done.stderr.strip().splitlines()[-1]} |")
            continue
        planned, spent, status, reason = json.loads(done.stdout.splitlines()[-1])
        if status != "finished":
            print(f"| {name} | {setting} | {reason} |")
            continue
        ratio = spent / planned
        print(f"| {name} | {setting} | {planned:.1f} s | {spent:.1f} s | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
