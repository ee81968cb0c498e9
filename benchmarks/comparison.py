"""Share of comparisons whose interval holds the true difference, in simulated sweeps.

Two systems are trained on several seeds and scored on the same pairs. A cosine is the gold score,
times the quality of the system, plus what makes the pair hard for every system, for this system,
and for this seed. The systems are equally good on average, so the true difference is 0. Run with
`python -m benchmarks.comparison`; it takes about ten minutes on one core.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from harness.evaluation.bootstrap import replicates
from harness.report.difference import (
    Difference,
    Scored,
    over_both,
    over_pairs,
    over_seeds,
)


@dataclass(frozen=True)
class Design:
    """A kind of sweep."""

    seeds: int
    pairs: int
    of_seed: float
    """The spread of the quality over seeds"""
    of_system: float
    """The spread of what makes a pair hard for all seeds of a system"""
    own: float
    """The spread of what makes a pair hard for one seed"""
    common: bool = False
    """Whether both systems are trained on the same seeds, and so are compared in pairs"""

    def __str__(self) -> str:
        paired = ", common" if self.common else ""
        spreads = f"{self.of_seed:g}, {self.of_system:g}, {self.own:g}"
        return f"{self.seeds} seeds{paired}, {self.pairs} pairs, spreads {spreads}"


DESIGNS = (
    Design(3, 200, 0.3, 0.5, 0.2),  # seeds and pairs matter alike
    Design(5, 200, 0.3, 0.5, 0.2),
    Design(5, 200, 0.3, 0.5, 0.2, common=True),
    Design(3, 200, 0.0, 0.8, 0.1),  # the pairs alone
    Design(3, 400, 0.5, 0.1, 0.1),  # the seeds alone
    Design(5, 200, 0.0, 0.1, 0.9),  # what a seed scores by chance on the pairs
)
Comparison = tuple[Scored, Scored]


def simulated(design: Design, sweeps: int, resamples: int) -> Iterator[Comparison]:
    """The two systems of each simulated sweep."""
    random = np.random.default_rng(0)
    for _ in range(sweeps):
        gold = random.uniform(0, 5, design.pairs)
        hard = random.normal(0, 1, design.pairs)
        cosines = [
            (1.5 + design.of_seed * random.normal()) * gold / 2 + hard + system + own
            for system in design.of_system * random.normal(size=(2, design.pairs))
            for own in design.own * random.normal(size=(design.seeds, design.pairs))
        ]
        drawn = replicates(cosines, gold, resamples=resamples)
        scores = _scores(cosines, gold)
        yield tuple(
            Scored(
                tuple(scores[rows].tolist()),
                tuple((0, seed + (0 if design.common else start)) for seed in range(design.seeds)),
                trained=True,
                resampled=drawn[rows],
            )
            for start in (0, design.seeds)
            for rows in [slice(start, start + design.seeds)]
        )  # type: ignore[misc]


def _scores(cosines: list[np.ndarray], gold: np.ndarray) -> np.ndarray:
    ranks = [np.argsort(np.argsort(values)) for values in (*cosines, gold)]
    return 100 * np.corrcoef(ranks)[-1, :-1]


def covered(sweeps: Iterable[Comparison]) -> float:
    """The share of the sweeps whose interval over seeds and pairs holds the true difference."""
    return float(np.mean([_holds(over_both(*sweep)) for sweep in sweeps]))


def _holds(found: Difference | None) -> bool:
    assert found is not None
    return found.low <= 0 <= found.high


def _seeds_drawn_with_replacement(first: Scored, second: Scored) -> Difference:
    """The plain hierarchical bootstrap, which the harness does not use."""
    random = np.random.default_rng(0)
    means = []
    for side in (first, second):
        assert side.resampled is not None
        n, resamples = side.resampled.shape
        rows = random.integers(0, n, (n, resamples))
        means.append(np.take_along_axis(side.resampled, rows, axis=0).mean(axis=0))
    low, high = np.percentile(means[0] - means[1], [2.5, 97.5])
    return Difference(first.mean - second.mean, low, high, 1.0, "")


def main() -> None:
    """Print the coverage of each kind of interval, for each design."""
    print("| design | over seeds | over test pairs | over both | seeds with replacement |")
    print("|---|--:|--:|--:|--:|")
    for design in DESIGNS:
        sweeps = list(simulated(design, sweeps=1000, resamples=1000))
        ways = (over_seeds, over_pairs, over_both, _seeds_drawn_with_replacement)
        shares = [np.mean([_holds(way(*sweep)) for sweep in sweeps]) for way in ways]
        print(
            f"| {design} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |", flush=True
        )


if __name__ == "__main__":
    main()
