"""Cost of the checkpoint of a running trial, as a share of the training at the default interval.

Unsupervised SimCSE trains an encoder of the size of BERT base with random weights, and saves itself
after every step: weights, the best weights so far, AdamW's state and a digest of it all. The time
of a checkpoint stands against the time between two of them. The watch over the losses is measured
as well. It needs neither HARNESS_HUB nor the Hub.

    python benchmarks/checkpoint.py [--layers 12] [--rounds 3] [--threads 1] [--folder /tmp]

A short try: `python benchmarks/checkpoint.py --layers 1 --rounds 1`.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import transformers
from transformers import AutoTokenizer, BertConfig, BertModel

from harness.data.hub import model_folder
from harness.device import device
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.plugin.stage import Stage
from harness.training.loop import Trainer
from harness.training.saved_state import LARGEST_SHARE, MINUTES, Checkpoint, SavedState
from harness.training.seeds import seed_everything
from harness.training.steps import FiniteLosses

WATCHED_STEPS = 2000


class Measured(Checkpoint):
    """A checkpoint after every step, whose seconds are noted."""

    seconds: list[tuple[float, float]]
    """Seconds of the clock, and of the processor"""

    def due(self, *, ends: bool) -> bool:
        """Whether there was a step."""
        return True

    def write(self, saved: SavedState) -> None:
        """Write it, and note how long that took."""
        started, worked = time.perf_counter(), time.process_time()
        super().write(saved)
        self.seconds.append((time.perf_counter() - started, time.process_time() - worked))


def encoder(folder: Path, layers: int) -> Path:
    """A BERT base of so many layers, with random weights and the embedded tokenizer."""
    config = BertConfig(num_hidden_layers=layers)
    BertModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model_folder("tiny-bert")).save_pretrained(folder)
    return folder


def checkpoints(folder: Path, layers: int, rounds: int) -> tuple[list[tuple[float, float]], int]:
    """The seconds of each checkpoint, by the clock and of the processor, and its bytes."""
    plugin = registry.load("simcse")
    values = {"encoder": str(encoder(folder / "encoder", layers)), "batch_size": 8}
    small = {"max_steps": rounds + 1, "sentences": "graded-sentences", "evaluation_interval": 1}
    seed_everything(0)
    kit = Kit(plugin.declare(resolve(plugin, {**values, **small})), device())
    checkpoint = Measured(folder / "checkpoint.safetensors", {})
    checkpoint.seconds = []
    trainer = Trainer(kit.build(), kit, 0, lambda: 0.0, lambda _: None, checkpoint)
    trainer.run()
    # The first one does not count: it fills caches.
    return checkpoint.seconds[1:], checkpoint.path.stat().st_size


def watch_seconds() -> float:
    """The seconds that the watch over two losses takes in a step."""
    watch = FiniteLosses(at_once=device().type == "cpu")
    stage = Stage("one", {}, {}, dict.fromkeys(("first", "second"), 1.0))
    losses = {name: torch.ones((), device=device()) for name in stage.losses}
    started = time.perf_counter()
    for step in range(WATCHED_STEPS):
        watch.note(stage, step, losses)
    watch.check()
    return (time.perf_counter() - started) / WATCHED_STEPS


def main() -> None:
    """Print the cost of a checkpoint and that of the watch."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None, help="where the checkpoints go")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        seconds, size = checkpoints(Path(folder), options.layers, options.rounds)
    taken, worked = zip(*seconds, strict=True)
    # After a slow checkpoint the next one comes later.
    shares = [each / (max(60 * MINUTES, each / LARGEST_SHARE) + each) for each in taken]
    print(
        f"a checkpoint of {size / 2**20:.0f} MiB: {median(taken):.2f} s ({min(taken):.2f} to "
        f"{max(taken):.2f}), {median(worked):.2f} s of a processor"
    )
    print(f"share of the time: {median(shares):.2%} ({min(shares):.2%} to {max(shares):.2%})")
    print(f"the watch over two losses: {1e6 * watch_seconds():.0f} us a step")


if __name__ == "__main__":
    main()
