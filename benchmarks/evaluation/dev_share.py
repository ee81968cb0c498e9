"""The share of training that the evaluation on STS-B dev takes, with the papers' configurations.

Every method has its published batch size and interval for BERT base, but a smaller encoder. The
processor seconds of a step of the last stage times the interval stand against those of one
evaluation as harness.trials.run does it. Processor seconds depend less on other work on the
machine. It needs HARNESS_HUB.

    python benchmarks/evaluation/dev_share.py [--encoder mini-bert] [--steps 8] [--threads 1]
        [--methods simcse diffcse ...]

A short try: `python benchmarks/evaluation/dev_share.py --encoder tiny-bert --steps 1 --methods
simcse`.
"""

import argparse
import time
from dataclasses import replace
from typing import Any

import torch

from harness.device import device, resolve_precision
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.plugin.stage import Stage
from harness.training.loop import Trainer
from harness.training.seeds import seed_everything

METHODS = ("simcse", "dcpcse", "d2cse", "diffcse", "diffaug", "promptbert")
WARMUP_STEPS = 2


def measure(name: str, encoder: str, steps: int) -> tuple[int, int, float, float]:
    """Items in a step, interval, and processor seconds of a step and of an evaluation."""
    plugin = registry.load(name)
    published = resolve(plugin, {"encoder": "bert-base-uncased"}).model_dump()
    generator = {"generator": encoder} if "generator" in published else {}
    config = resolve(plugin, published | {"encoder": encoder} | generator)
    assert isinstance(config, TrainingConfig), f"{name} trains nothing"
    seed_everything(0)
    declared = plugin.declare(config)
    stage = declared.stages[-1]
    kit = Kit(declared, device())
    kit.build_shared()
    method = kit.build()
    # The first run warms up, and what the second one takes to begin with is no part of a step.
    run_seconds(method, kit, stage, WARMUP_STEPS)
    short, long = (run_seconds(method, kit, stage, n) for n in (WARMUP_STEPS, WARMUP_STEPS + steps))
    seconds = (long - short) / steps
    evaluation = evaluation_seconds(Embedder(method, kit), kit)
    items = config.batch_size * stage.accumulation
    return items, config.evaluation_interval, seconds, evaluation


def run_seconds(method: Any, kit: Kit, stage: Stage, steps: int) -> float:
    """Processor seconds of a training of so many steps, with its preparation."""
    kit.declared.stages = [replace(stage, max_steps=steps, epochs=None)]
    started = time.process_time()
    Trainer(method, kit, 0, evaluate=lambda: 0.0, report=lambda _: None).run()
    return time.process_time() - started


def evaluation_seconds(embedder: Embedder, kit: Kit) -> float:
    """Processor seconds of an evaluation on STS-B dev along training."""
    measured = suite("sts")
    # The first one does not count: a trial tokenises its test sentences only once.
    measured.score_dev(embedder)
    rounded = resolve_precision("auto", kit.device) == "bf16"
    started = time.process_time()
    with torch.autocast(kit.device.type, torch.bfloat16, enabled=rounded):
        measured.score_dev(embedder)
    return time.process_time() - started


def main() -> None:
    """Print a line for each method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default="mini-bert")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.methods:
        items, interval, seconds, evaluation = measure(name, options.encoder, options.steps)
        share = 100 * evaluation / (interval * seconds + evaluation)
        print(
            f"{name:10} batch {items}, every {interval} steps: {seconds:.2f} s a step, "
            f"evaluation {evaluation:.2f} s, share {share:.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
