"""Distance of training and evaluation from the machine's matrix products.

The peak is what bare products of the shapes of a step reach: tokens by weights, forward and both
ways back, in the same precision and with the same threads; each shape counts with its best of
several rounds. A step is SimCSE's on shuffled batches of real sentences, two views each, at most 32
tokens, random weights of the shapes of `padding.py`. Only the arithmetic of real tokens counts, and
of the last layer only what the loss reads. The rest of a step is listed by kind of operation, from
torch's profiler.

It needs HARNESS_HUB for the sentences and the tokenizer.

    python benchmarks/limit.py [--shape base] [--precision bf16] [--steps 8] [--batch 64]
        [--threads 1]

A short try: `python benchmarks/limit.py --shape mini --precision fp32 --steps 2 --batch 16`.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import torch
import transformers
from padding import SHAPES, training_of
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from harness.data.corpora import source
from harness.evaluation.embedder import Embedder
from harness.plugin.kit import Kit

KINDS = {
    "products of the linear layers": ("mm", "addmm", "linear", "mkldnn"),
    "attention": ("scaled_dot_product", "bmm", "softmax", "flash"),
    "copies and casts": ("copy", "clone", "cat", "index", "scatter", "gather", "put", "take"),
    "dropout": ("dropout", "bernoulli", "rand"),
    "activations": ("gelu", "tanh"),
    "norms": ("layer_norm",),
    "optimiser": ("_foreach", "adam", "_fused", "addcdiv", "lerp", "norm"),
    "filled memory": ("fill", "zero"),
}
"""Title in the list -> parts of the names of torch's operations; the first that fits counts"""
ROUNDS = 7
TEXTS = 1024
"""Sentences of the evaluation"""


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder."""

    hidden: int
    inner: int
    layers: int
    heads: int

    @property
    def weights(self) -> list[tuple[int, int]]:
        """(out, in) of the matrices of a layer that every token passes."""
        return [(self.hidden, self.hidden)] * 4 + [
            (self.inner, self.hidden), (self.hidden, self.inner),
        ]  # fmt: skip

    def forward(self, lengths: Tensor) -> float:
        """Operations of a forward pass over rows of these lengths, which ends at one position."""
        tokens, rows = int(lengths.sum()), len(lengths)
        layer = sum(out * into for out, into in self.weights)
        attended = 2 * self.hidden * float((lengths**2).sum())
        # One query of each head meets the states of its row, and adds them up.
        last = layer * rows + 2 * self.heads * self.hidden * tokens
        return 2 * ((self.layers - 1) * (layer * tokens + attended) + last)


def peak(shape: Shape, tokens: int, kind: torch.dtype) -> float:
    """Operations per second of the bare products of a step over so many tokens."""
    operations = seconds = 0.0
    for out, into in dict.fromkeys(shape.weights):
        count = shape.weights.count((out, into))
        states, weight = torch.randn(tokens, into, dtype=kind), torch.randn(out, into, dtype=kind)
        back = torch.randn(tokens, out, dtype=kind)
        for product in (
            lambda x=states, w=weight: x @ w.T,
            lambda y=back, w=weight: y @ w,
            lambda y=back, x=states: y.T @ x,
        ):
            seconds += count * min(timed(product) for _ in range(ROUNDS))
            operations += count * 2 * tokens * out * into
    return operations / seconds


def timed(call: Callable[[], Any]) -> float:
    """Seconds of the clock for one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def kinds(trace: profile) -> Counter[str]:
    """Kind of operation -> microseconds in it alone."""
    spent: Counter[str] = Counter()
    for event in trace.key_averages():
        name = event.key.removeprefix("aten::")
        fits = (kind for kind, parts in KINDS.items() if any(part in name for part in parts))
        spent[next(fits, "the rest, with Python")] += event.self_cpu_time_total
    return spent


def compare(name: str, precision: str, steps: int, size: int) -> None:
    """Print the peak, and the shares of it that a step and an evaluation reach."""
    sizes = transformers.BertConfig(**SHAPES[name])
    shape = Shape(
        sizes.hidden_size,
        sizes.intermediate_size,
        sizes.num_hidden_layers,
        sizes.num_attention_heads,
    )
    with training_of("simcse", name, size) as training:
        batches = list(islice(training.batches, steps + 1))
        views = [batch["contrastive"].attention_mask.sum(1).repeat(2) for batch in batches]
        training.step(batches[0], precision)  # the first one is slower than the others
        seconds = [timed(partial(training.step, batch, precision)) for batch in batches[1:]]
        reached = [3 * shape.forward(each) / s for each, s in zip(views[1:], seconds, strict=True)]
        with profile(activities=[ProfilerActivity.CPU]) as trace:
            training.step(batches[-1], precision)
        tokens = int(median(float(each.sum()) for each in views))
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        limit = peak(shape, tokens, kind)
        print(
            f"{name} {precision}: bare products {limit / 1e9:.0f} GFLOP/s; a step of {tokens} "
            f"tokens reaches {median(reached) / limit:.0%} of it "
            f"({min(reached) / limit:.0%} to {max(reached) / limit:.0%} in {steps} steps)"
        )
        spent = kinds(trace)
        whole = sum(spent.values())
        print("  " + ", ".join(f"{what} {us / whole:.0%}" for what, us in spent.most_common()))
        if precision == "fp32":  # the precision of the scores that are stored
            evaluation(training.method, training.kit, shape, limit)


def evaluation(method: Any, kit: Kit, shape: Shape, limit: float) -> None:
    """Print the share of the peak that the embedding of sentences reaches."""
    corpus = source(kit.declared.corpora["contrastive"])
    texts = corpus.corpus(corpus.paths()).columns[0][:TEXTS]
    embedder = Embedder(method, kit)
    embedder(texts[:64])
    seconds = timed(lambda: embedder(texts))
    around = len(method.evaluation_template)
    pieces = {embedder._pieces[text] for text in texts}
    lengths = torch.tensor([len(each) + around for each in pieces])
    print(f"  evaluation reaches {shape.forward(lengths) / seconds / limit:.0%} of it")


def main() -> None:
    """Print the shares for every shape and precision that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, action="append", help="default: all")
    parser.add_argument("--precision", choices=["fp32", "bf16"], action="append")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    for shape in options.shape or SHAPES:
        for precision in options.precision or ["fp32", "bf16"]:
            compare(shape, precision, options.steps, options.batch)


if __name__ == "__main__":
    main()
