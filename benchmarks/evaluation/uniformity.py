"""Seconds of the uniformity of as many rows as STS-B test has, against two other ways.

The other ways are torch.pdist and a tensor with all (rows, rows, width) differences. The rows are
random, because the time does not depend on their values. Wall and processor time are the shortest
of the rounds; on a busy machine, only the processor time means something. One thread is the
default: two are faster only where each has a core of its own.

    python benchmarks/evaluation/uniformity.py [--threads 1] [--rows 2758] [--width 384]
        [--rounds 20]

A short try: `python benchmarks/evaluation/uniformity.py --rows 500 --rounds 1`.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch.nn import functional

from harness.evaluation.geometry import uniformity


def by_pdist(vectors: np.ndarray) -> float:
    """Compute it as the code of Wang and Isola does, with all distances in one vector."""
    distances = torch.pdist(functional.normalize(torch.from_numpy(vectors)))
    return float(distances.pow(2).mul(-2).exp().mean().log())


def by_tensor(vectors: np.ndarray) -> float:
    """Compute it from all differences, in blocks of 16 rows so that they fit into memory."""
    units = functional.normalize(torch.from_numpy(vectors))
    total = 0.0
    for start in range(0, len(units), 16):
        squares = (units[start : start + 16, None] - units).pow(2).sum(-1)
        total += float((-2 * squares).exp().sum(dtype=torch.float64))
    # Every row with itself has the distance 0, and is no pair.
    return float(np.log((total - len(units)) / (len(units) * (len(units) - 1))))


def main() -> None:
    """Print the value and the times of each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=2758)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shape = (options.rows, options.width)
    vectors = np.random.default_rng(0).normal(0.3, 1, shape).astype(np.float32)
    with threadpool_limits(options.threads):
        for name, way, rounds in (
            ("harness", uniformity, options.rounds),
            ("torch.pdist", by_pdist, 3),
            ("differences", by_tensor, 1),
        ):
            value, wall, processor = shortest(way, vectors, rounds)
            print(
                f"{name}: {value:.6f} in {1000 * wall:.1f} ms "
                f"({1000 * processor:.1f} ms of processor time)",
                flush=True,
            )


def shortest(
    way: Callable[[np.ndarray], float], vectors: np.ndarray, rounds: int
) -> tuple[float, float, float]:
    """The value, and the shortest wall and processor seconds of some rounds."""
    walls, processors = [], []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        value = way(vectors)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return value, min(walls), min(processors)


if __name__ == "__main__":
    main()
