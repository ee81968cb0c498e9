"""Seconds of an epoch of CLSR at the size of NLI, through the training loop.

The 314,315 pairs are random vectors of width 768 in a temporary file of 1.9 GB, so no encoder and
no data are needed. The first ten steps warm up and do not count.

    python benchmarks/clsr.py [--steps 1226] [--pairs 314315]

A short try: `python benchmarks/clsr.py --steps 20 --pairs 2000`.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from harness.data.tokens import Template, Tokens
from harness.device import device
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer

WIDTH = 768
EPOCH = 613  # batches of 512 in 314,315 pairs
WARMUP = 10
"""Steps that do not count, and steps between two looks at the clock"""


class FileKit(Kit):
    """A kit with vectors from a file, in place of an encoder."""

    tokenizer: Any = SimpleNamespace(cls_token_id=1, sep_token_id=2)
    vectors: np.ndarray
    """(pairs, 2, WIDTH) float32"""

    def encoder(self, *, dropout: float | None = None) -> Any:
        encoder = nn.Identity()
        encoder.hidden_size = WIDTH  # type: ignore[assignment]
        return encoder

    def tokens(self, corpus: str, template: Template | None = None) -> Tokens:
        pairs = len(self.vectors)
        return Tokens([np.zeros(pairs, np.int32)] * 2, [np.arange(pairs + 1)] * 2, None, 0)

    def artefact(self, name: str) -> Mapping[str, np.ndarray]:
        return {"vectors": self.vectors}


def random_vectors(path: Path, pairs: int) -> np.ndarray:
    """Write random vectors to a file, and return them memory-mapped."""
    array = np.lib.format.open_memmap(path, "w+", np.float32, (pairs, 2, WIDTH))
    # Part by part, so that they need not fit into memory.
    for start in range(0, pairs, 10_000):
        part = array[start : start + 10_000]
        part[:] = np.random.default_rng(start).standard_normal(part.shape, np.float32)
    array.flush()
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped


def seconds_per_step(kit: FileKit, steps: int) -> float:
    """Train that many steps, and return the mean seconds of a step after the warm-up."""
    method = kit.build()
    seconds: list[float] = []

    def look() -> float:
        # In place of a dev score, every WARMUP steps and at the end.
        if kit.device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(trainer.outcome.seconds)
        return 0.0

    trainer = Trainer(method, kit, 0, look, lambda _: None)
    trainer.run()
    return (seconds[-1] - seconds[0]) / (steps - WARMUP)


def main() -> None:
    """Print the seconds of a step and of an epoch."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=2 * EPOCH, help=f"more than {WARMUP}")
    parser.add_argument("--pairs", type=int, default=314_315)
    options = parser.parse_args()
    plugin = registry.load("clsr")
    config = resolve(plugin, {"max_steps": options.steps, "evaluation_interval": WARMUP})
    kit = FileKit(plugin.declare(config), device())
    with tempfile.TemporaryDirectory() as folder:
        kit.vectors = random_vectors(Path(folder) / "vectors.npy", options.pairs)
        seconds = seconds_per_step(kit, options.steps)
    print(f"{kit.device}: {1000 * seconds:.2f} ms a step, {EPOCH * seconds:.1f} s an epoch")


if __name__ == "__main__":
    main()
