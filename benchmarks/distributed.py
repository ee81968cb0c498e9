"""Several processes against one: sentences per second of a training, by engine and workers.

Unsupervised SimCSE on an encoder with random weights and on the embedded sentences, so that it
needs neither a mirror nor a network. The same trial runs under each engine in turn. On CPUs each
worker has one thread and all share one batch. On GPUs each worker has one GPU, and the batch grows
with their number.

    python benchmarks/distributed.py [--shape mini] [--batch 64] [--steps 12] [--rounds 3]
        [--workers 1 2] [--engines ddp zero-2]

A short try: `python benchmarks/distributed.py --steps 2 --rounds 1 --engines ddp`.
"""

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
from padding import SHAPES, random_encoder

from harness.trials.run import attempt
from harness.trials.trial import Trial


def engine_fields(engine: str, workers: int) -> dict[str, Any]:
    """The fields of a trial for `single`, `ddp`, `zero-1`, `zero-2` or `zero-3`."""
    name, _, stage = engine.partition("-")
    if name == "zero":
        return {"engine": "deepspeed", "workers": workers, "zero": int(stage)}
    return {"engine": name, "workers": workers}


def speed(encoder: str, engine: str, workers: int, options: argparse.Namespace) -> float:
    """Sentences per second of the training steps."""
    on_gpus = torch.cuda.is_available()
    torch.set_num_threads(workers)  # which the workers share
    values = {
        "encoder": encoder,
        "suite": "graded",
        "sentences": "graded-sentences",
        "batch_size": options.batch * (workers if on_gpus else 1),
        "max_steps": options.steps,
        "precision": options.precision,
        **engine_fields(engine, workers),
    }
    record = attempt(Trial("simcse", values, 0, "search"), lambda _: None)
    assert record.finished, record.reason
    assert record.sentences_per_second
    return record.sentences_per_second


def main() -> None:
    """Print the speed of each engine, and its ratio to one process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="mini")
    parser.add_argument("--batch", type=int, default=64, help="on GPUs, that of one worker")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", default=["ddp", "zero-2"])
    options = parser.parse_args()
    kinds = [
        ("single", 1),
        *((name, count) for name in options.engines for count in options.workers),
    ]
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        encoder = random_encoder(options.shape, Path(folder), tokenizer="tiny-bert")
        for _ in range(options.rounds):
            for kind in kinds:
                rates[kind].append(speed(encoder, *kind, options))
    alone = rates["single", 1]
    for (engine, workers), speeds in rates.items():
        ratios = [one / other for one, other in zip(speeds, alone, strict=True)]
        print(
            f"{engine} with {workers} workers: {median(speeds):.0f} sentences/s, "
            f"{median(ratios):.2f} times one process ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
