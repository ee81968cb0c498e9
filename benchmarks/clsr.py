"""Seconds of a CLSR epoch on NLI's size: 314,315 pairs of random vectors, 768 wide, through the training loop.

python benchmarks/clsr.py [UPDATES]
"""

import sys
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
from harness.training.loop import Trainer
from harness.trials.trial import resolve

PAIRS, WIDTH = 314_315, 768


class Synthetic(Kit):
    """Vectors from a file instead of an encoder."""

    tokenizer: Any = SimpleNamespace(cls_token_id=1, sep_token_id=2)
    vectors: np.ndarray

    def encoder(self, *, dropout: float | None = None) -> Any:
        encoder = nn.Identity()
        encoder.hidden_size = WIDTH  # type: ignore[assignment]
        return encoder

    def tokens(self, corpus: str, template: Template | None = None) -> Tokens:
        return Tokens([np.zeros(PAIRS, np.int32)] * 2, [np.arange(PAIRS + 1)] * 2, None, 0)

    def artefact(self, name: str) -> Mapping[str, np.ndarray]:
        return {"vectors": self.vectors}


def main() -> None:
    """Print seconds per update and per epoch of 613, the first ten updates left out."""
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 1226
    plugin = registry.load("clsr")
    kit = Synthetic(
        plugin, resolve(plugin, {"max_steps": updates, "evaluation_interval": 10}), device()
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        array = np.lib.format.open_memmap(path, "w+", np.float32, (PAIRS, 2, WIDTH))
        for start in range(0, PAIRS, 10_000):
            part = array[start : start + 10_000]
            part[:] = np.random.default_rng(start).standard_normal(part.shape, np.float32)
        kit.vectors = np.load(path, mmap_mode="r")
        method = kit.build().to(kit.device)
        spent: list[float] = []

        def now() -> float:
            if kit.device.type == "cuda":
                torch.cuda.synchronize()
            spent.append(trainer.outcome.seconds)
            return 0.0

        trainer = Trainer(method, kit, 0, now, lambda _: None)
        trainer.run()
    each = (spent[-1] - spent[0]) / (updates - 10)
    print(f"{kit.device}: {1000 * each:.2f} ms an update, {613 * each:.1f} s an epoch")


if __name__ == "__main__":
    main()
