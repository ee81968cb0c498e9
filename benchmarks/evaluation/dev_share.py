"""What share of training the STS-B dev evaluation takes, at each paper's batch size and interval for BERT base.

Every method with its published configuration, on a smaller encoder: seconds per update of the last stage (some updates,
warmed up) times the interval, against one evaluation as harness.trials.run does it. Processor seconds, so that other work
on the machine matters less. Needs HARNESS_HUB.

    python benchmarks/evaluation/dev_share.py [--encoder mini-bert] [--steps 8] [--methods simcse diffcse ...]
"""

import argparse
import functools
import time
from dataclasses import replace
from typing import Any

import torch

from harness.device import device, resolve_precision
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.training.loop import Trainer
from harness.training.seeds import seed_everything
from harness.trials.trial import resolve

METHODS = ("simcse", "dcpcse", "d2cse", "diffcse", "diffaug", "promptbert")


def measure(name: str, encoder: str, steps: int) -> tuple[int, int, float, float]:
    """Batch size, interval, and processor seconds of an update and of an evaluation."""
    plugin = registry.load(name)
    published = resolve(plugin, {"encoder": "bert-base-uncased"}).model_dump()
    generator = {"generator": encoder} if "generator" in published else {}
    config = resolve(plugin, published | {"encoder": encoder} | generator)
    seed_everything(0)
    kit = Kit(plugin.declare(config), device())
    kit.build_shared()
    method = plugin.method(config, kit).to(kit.device)
    stage = plugin.method.stages(config)[-1]
    for updates in (2, steps):  # the first two warm up
        spent = time.process_time()
        train(method, kit, replace(stage, max_steps=updates, epochs=None))
        per_update = (time.process_time() - spent) / updates
    embedder, sts = Embedder(method, kit), suite("sts")
    sts.score_dev(embedder)  # tokenised once per trial
    spent = time.process_time()
    with torch.autocast(
        kit.device.type, torch.bfloat16, enabled=resolve_precision("auto", kit.device) == "bf16"
    ):
        sts.score_dev(embedder)
    evaluation = time.process_time() - spent
    return (
        config.batch_size * stage.accumulation,
        config.evaluation_interval,
        per_update,
        evaluation,
    )


def train(method: Any, kit: Kit, stage: Any) -> None:
    """That stage alone, without evaluations."""
    method.stages = functools.partial(lambda only, _config: [only], stage)
    Trainer(method, kit, 0, evaluate=lambda: 0.0, report=lambda _: None).run()


def main() -> None:
    """Print a line a method."""
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
        batch, interval, update, evaluation = measure(name, options.encoder, options.steps)
        share = 100 * evaluation / (interval * update + evaluation)
        print(
            f"{name:10} batch {batch}, every {interval} updates: {update:.2f} s an update, "
            f"evaluation {evaluation:.2f} s, share {share:.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
