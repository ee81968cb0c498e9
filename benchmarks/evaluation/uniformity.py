"""Uniformity of as many rows as STS-B test has, against torch.pdist and the N x N x hidden tensor of distances.

Random rows: the time does not depend on what they are. Wall and processor time, the shortest of the rounds; on a busy
machine only the latter means something. One thread is the default: two are quicker where each has a core, slower
than one while the kernel keeps both on the same one.

    python benchmarks/evaluation/uniformity.py [--threads 1] [--rows 2758] [--width 384] [--rounds 20]
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
    """Wang and Isola's own code: all distances as one vector."""
    distances = torch.pdist(functional.normalize(torch.from_numpy(vectors)))
    return float(distances.pow(2).mul(-2).exp().mean().log())


def by_tensor(vectors: np.ndarray) -> float:
    """All differences at once, in blocks of 16 rows so that they fit in memory."""
    units = functional.normalize(torch.from_numpy(vectors))
    total = sum(
        float(
            (-2 * (units[at : at + 16, None] - units).pow(2).sum(-1)).exp().sum(dtype=torch.float64)
        )
        for at in range(0, len(units), 16)
    )
    return float(np.log((total - len(units)) / (len(units) * (len(units) - 1))))


def main() -> None:
    """Print value and times of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=2758)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    vectors = (
        np.random.default_rng(0).normal(0.3, 1, (options.rows, options.width)).astype(np.float32)
    )
    with threadpool_limits(options.threads):
        for name, way, rounds in (
            ("harness", uniformity, options.rounds),
            ("torch.pdist", by_pdist, 3),
            ("differences", by_tensor, 1),
        ):
            value, wall, processor = shortest(way, vectors, rounds)
            print(
                f"{name}: {value:.6f} in {1000 * wall:.1f} ms ({1000 * processor:.1f} ms of processor time)",
                flush=True,
            )


def shortest(
    way: Callable[[np.ndarray], float], vectors: np.ndarray, rounds: int
) -> tuple[float, float, float]:
    """Value, and the shortest wall and processor seconds of some rounds."""
    walls, processors = [], []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        value = way(vectors)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return value, min(walls), min(processors)


if __name__ == "__main__":
    main()
