"""Training steps with padding and without, in turn and on the same shuffled batches.

A step is SimCSE's: two views of each sentence, at most 32 tokens, loss, gradients and update.
`tiny` has 2 layers 128 wide, as the embedded encoder, `mini` has 6 layers 384 wide, and `base` has
the shape of BERT base; the weights are random. Seconds are those of the processor, which other
processes disturb less than those of the clock. It needs HARNESS_HUB for the sentences and the
tokenizer.

    python benchmarks/padding.py [--shape mini] [--precision bf16] [--method simcse] [--steps 10]
        [--batch 64] [--threads 1]

A short try: `python benchmarks/padding.py --shape mini --precision fp32 --steps 2 --batch 16`.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

from harness.data.batching import TextBatch
from harness.data.hub import model_folder
from harness.encoders.backbone import Encoder
from harness.plugin import registry
from harness.plugin.kit import Kit, load_tokenizer
from harness.plugin.resolution import resolve
from harness.training.feeding import made, stage_streams
from harness.training.optimisers import StageOptimiser
from harness.training.seeds import seed_everything

TOKENIZER = "sentence-transformers/all-MiniLM-L6-v2"
SHAPES: dict[str, dict[str, int]] = {
    "tiny": {
        "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 512,
    },
    "mini": {
        "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    "base": {},
}  # fmt: skip


def random_encoder(shape: str, folder: Path, tokenizer: str = TOKENIZER) -> str:
    """A BERT of this shape with random weights and the tokenizer of a model."""
    BertForMaskedLM(BertConfig(**SHAPES[shape])).save_pretrained(folder)
    load_tokenizer(str(model_folder(tokenizer))).save_pretrained(folder)
    return str(folder)


def kit_of(method: str, encoder: str, batch: int) -> Kit:
    """A kit of the method with the values of its paper."""
    plugin = registry.load(method)
    values = {"encoder": encoder, "batch_size": batch, "generator": encoder, "max_steps": 1000}
    fields = plugin.config_type.model_fields
    known = {name: value for name, value in values.items() if name in fields}
    return Kit(plugin.declare(resolve(plugin, known)), torch.device("cpu"))


class Training(NamedTuple):
    """The last stage of a method's training."""

    kit: Kit
    method: Any
    optimiser: StageOptimiser
    batches: Iterator[Mapping[str, TextBatch]]

    def step(self, batch: Mapping[str, TextBatch], precision: str) -> float:
        """The processor's seconds for one training step."""
        started = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            losses = self.method.losses(batch, self.optimiser.stage)
        torch.stack([loss.float() for loss in losses.values()]).sum().backward()
        self.optimiser.step(0)
        return time.process_time() - started


@contextmanager
def training_of(name: str, shape: str, batch: int) -> Iterator[Training]:
    """The training of a method with a random encoder, as long as the encoder's files exist."""
    with tempfile.TemporaryDirectory() as folder:
        seed_everything(0)
        kit = kit_of(name, random_encoder(shape, Path(folder)), batch)
        method = kit.build().train()
        stage = kit.declared.stages[-1]
        optimiser = StageOptimiser(stage, method, kit.config, 1000)
        streams = stage_streams(method, kit, stage, seed=0)
        yield Training(kit, method, optimiser, made(method, stage, streams, 0))


def compare(name: str, shape: str, precision: str, steps: int, size: int) -> None:
    """Print how many times as fast a step without padding is, in the method's last stage."""
    with training_of(name, shape, size) as training:
        batches = list(islice(training.batches, steps + 1))
        encoders = [each for each in training.method.modules() if isinstance(each, Encoder)]
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for batch in batches:
            for unpads in seconds:
                for encoder in encoders:
                    encoder.unpads = unpads
                seconds[unpads].append(training.step(batch, precision))
    # The first step of each is slower than the others.
    padded, unpadded = (np.array(seconds[unpads][1:]) for unpads in (False, True))
    low, middle, high = np.quantile(padded / unpadded, [0.1, 0.5, 0.9])
    masks = [text.attention_mask.float() for batch in batches for text in batch.values()]
    real = np.mean([mask.mean() for mask in masks])
    print(
        f"{name} {shape} {precision}: {real:.0%} of the positions are tokens; padded "
        f"{np.median(padded):.3f} s, unpadded {np.median(unpadded):.3f} s a step, "
        f"{middle:.2f} times as fast ({low:.2f} to {high:.2f} in 8 of 10 steps)"
    )


def main() -> None:
    """Compare for every shape and precision that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, action="append", help="default: all")
    parser.add_argument("--precision", choices=["fp32", "bf16"], action="append")
    parser.add_argument("--method", action="append", help="default: simcse")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.method or ["simcse"]:
        for shape in options.shape or SHAPES:
            for precision in options.precision or ["fp32", "bf16"]:
                compare(name, shape, precision, options.steps, options.batch)


if __name__ == "__main__":
    main()
