"""Parts of a training step on a CPU that this package computes itself, beside torch's own.

Dropout of the hidden states of a batch, attention of a block of rows (forward and backward pass),
and a whole step of SimCSE in which the last layer makes keys and values for all tokens. Each pair
runs in turn, on one thread, with the sizes of all-MiniLM-L6-v2. The step needs HARNESS_HUB, for the
sentences and the tokenizer.

    python benchmarks/parts.py [--precision bf16] [--rounds 30] [--steps 8] [--threads 1]

A short try: `python benchmarks/parts.py --rounds 5 --steps 2`.
"""

import argparse
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import torch
import transformers
from limit import timed
from padding import SHAPES, training_of
from torch import Tensor
from torch.nn import functional

from harness.encoders.plain_attention import attended, dropped

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
TOKENS, WIDTH, HEADS = 3000, 384, 12
BLOCKS = ((128, 24), (20, 30), (8, 120))
"""(rows, length) of the blocks of attention"""
RATE = 0.1
"""Rate of dropout"""


def compare(label: str, theirs: Callable[[], Any], ours: Callable[[], Any], rounds: int) -> None:
    """Print both times, and how many times as long theirs takes."""
    seconds = np.array([[timed(theirs), timed(ours)] for _ in range(rounds + 1)][1:])
    low, middle, high = np.quantile(seconds[:, 0] / seconds[:, 1], [0.1, 0.5, 0.9])
    other, own = np.median(seconds, axis=0) * 1e3
    print(
        f"{label}: {other:.2f} ms, ours {own:.2f} ms, ratio {middle:.2f} ({low:.2f} to {high:.2f})",
        flush=True,
    )


def dropout(precision: str, rounds: int) -> None:
    """Compare dropout of all tokens' states."""
    states = torch.randn(TOKENS, WIDTH, dtype=PRECISIONS[precision])
    compare(
        f"dropout {precision}, {TOKENS} tokens",
        lambda: functional.dropout(states, RATE),
        lambda: dropped(states, RATE, training=True),
        rounds,
    )


def attention(precision: str, rows: int, length: int, rate: float, rounds: int) -> None:
    """Compare both passes of attention with a mask."""
    size = WIDTH // HEADS
    text = [
        torch.randn(rows, length, HEADS, size, dtype=PRECISIONS[precision])
        .transpose(1, 2)
        .requires_grad_()
        for _ in range(3)
    ]
    mask = torch.arange(length) < torch.randint(length // 2, length + 1, (rows, 1, 1, 1))
    mask = mask.expand(-1, -1, length, -1)
    back = torch.randn(rows, length, HEADS, size, dtype=PRECISIONS[precision])

    def theirs() -> Tensor:
        return functional.scaled_dot_product_attention(*text, mask, dropout_p=rate).transpose(1, 2)

    def ours() -> Tensor:
        return attended(*text, mask, rate=rate, scaling=size**-0.5)

    compare(
        f"attention {precision}, {rows} rows of {length}, dropout {rate}",
        lambda: theirs().backward(back),
        lambda: ours().backward(back),
        rounds,
    )


def one_query(precision: str, shape: str, steps: int) -> None:
    """Compare steps of SimCSE whose last layer makes keys and values for all tokens, or not."""
    with training_of("simcse", shape, 64) as training:
        key = training.method.encoder.model.encoder.layer[-1].attention.self.key
        ratios = []
        for batch in islice(training.batches, steps + 1):
            # A key that a hook might change is made.
            hook = key.register_forward_hook(lambda _module, _inputs, output: output)
            all_tokens = training.step(batch, precision)
            hook.remove()
            ratios.append(all_tokens / training.step(batch, precision))
    low, middle, high = np.quantile(ratios[1:], [0.1, 0.5, 0.9])
    print(f"step {precision}, {shape}: ratio {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)


def main() -> None:
    """Print every comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--precision", choices=PRECISIONS, action="append", help="default: both")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    for precision in options.precision or PRECISIONS:
        dropout(precision, options.rounds)
        for rows, length in BLOCKS:
            for rate in (RATE, 0.0):
                attention(precision, rows, length, rate, options.rounds)
        for shape in SHAPES:
            if shape != "base":  # one step of it takes some ten seconds
                one_query(precision, shape, options.steps)


if __name__ == "__main__":
    main()
