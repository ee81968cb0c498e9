"""The share of a grid's cost after which TPE and ASHA have a configuration near its best.

All configurations of the grid were trained once (SimCSE on mini-bert and real sentences), and their
dev curves are in `search_curves.json`. A search is replayed from them through the studies, samplers
and pruners of a sweep, with a trial at a time. The cost of an evaluation is the number of
sentences trained on before it; a configuration that a sampler suggests again costs nothing, since
the store has it. Nearly as good: at most 0.2 points on dev. The window is the number of newest
configurations from which TPE learns.

    python benchmarks/search.py [--repetitions 20] [--window 1000]
    python benchmarks/search.py --measure    # trains the grid again; it needs HARNESS_HUB

A short try: `python benchmarks/search.py --repetitions 1`.
"""

import argparse
import asyncio
import itertools
import json
import random
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, cast
from unittest.mock import MagicMock

import torch

from harness.sweeps import study
from harness.sweeps.configurations import Configurations
from harness.sweeps.pool import Hearing, Job, Lanes, Report
from harness.sweeps.spaces.axes import SamplerValues
from harness.sweeps.spaces.pruners import Asha, Pruner
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.space import Repeats, Sampler
from harness.sweeps.study import Study
from harness.sweeps.trial_runs import TrialRuns
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial, describe

CURVES = Path(__file__).with_name("search_curves.json")
GRID = {
    "learning_rate": [3e-5, 1e-4, 2e-4, 3e-4, 5e-4, 1e-3],
    "batch_size": [16, 32],
    "temperature": [0.02, 0.035, 0.05, 0.07, 0.1],
}
STEPS, INTERVAL = 48, 6
NEAR = 0.2
"""Points on dev"""
# The embedded data stand in for the real ones, so that a replay needs neither model nor corpus.
STAND_IN = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
REPEATS = {"search": Repeats(seeds=[42]), "final": Repeats(seeds=[0])}

Curves = Mapping[tuple[float, ...], list[float]]
"""Values of the grid's hyperparameters -> dev after each evaluation"""


def measure() -> None:
    """Train every configuration that has no curve yet, on one thread, and write all curves."""
    torch.set_num_threads(1)
    curves = read_curves()
    for values in itertools.product(*GRID.values()):
        if values in curves:
            continue
        shared = {"encoder": "mini-bert", "max_steps": STEPS, "evaluation_interval": INTERVAL}
        trial = Trial("simcse", {**shared, **dict(zip(GRID, values, strict=True))}, 42, "search")
        record = attempt(trial, lambda _: None)
        found = [point["value"] for point in record.history if point["metric"] == "dev"]
        curves[values] = [round(score, 4) for score in found]
        print(values, curves[values], flush=True)
        lines = [json.dumps(pair) for pair in sorted(curves.items())]
        CURVES.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def read_curves() -> dict[tuple[float, ...], list[float]]:
    """The stored curves."""
    return {tuple(values): curve for values, curve in json.loads(CURVES.read_text("utf-8"))}


def search_of(*, sampler: Sampler | None = None, pruner: Pruner | None = None) -> Search:
    """The grid as a search: with a sampler over its values, or as it is."""
    ranges = {name: SamplerValues(values=values) for name, values in GRID.items()}
    return Search(
        method="simcse",
        variant="",
        fixed=STAND_IN,
        rounds=() if sampler else (GRID,),
        ranges=ranges if sampler else {},
        sampler=sampler,
        repeats=REPEATS,
        limit=None,
        pruner=pruner,
    )


class Played:
    """A pool in which a trial is its stored curve."""

    def __init__(self, store: Store, curves: Curves) -> None:
        self.store, self.curves = store, curves
        self.ended: list[tuple[int, float | None]] = []
        """The sentences of each trial, and its dev score if it has finished"""

    async def run(self, job: Job, hearing: Hearing) -> Report:
        """Play one trial."""
        if job.part:
            return {"status": "finished", "reason": None}
        values = tuple(job.trial.configuration[name] for name in GRID)
        best, done = 0.0, 0
        for score in self.curves[values]:
            best, done = max(best, score), done + 1
            steps = {"step": done * INTERVAL, "total_steps": STEPS}
            if hearing.progressed({**steps, "evaluation": done, "best_dev": best}):
                break
        status = "finished" if done == len(self.curves[values]) else "pruned"
        record = replace(describe(job.trial), status=status, dev={"graded-dev": best})
        self.store.write(record)
        sentences = done * INTERVAL * job.trial.configuration["batch_size"]
        self.ended.append((sentences, best if status == "finished" else None))
        return {"status": status, "reason": None, "dev": best}


def share(search: Search, curves: Curves, seed: int) -> float:
    """The share of the grid's cost until a configuration nearly as good as its best has ended.

    It is 1 when that never happens, because then the whole grid is to be run.
    """
    best = max(map(max, curves.values()))
    total = sum(len(curve) * INTERVAL * values[1] for values, curve in curves.items())
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store")
        listed = search.configurations(0, []) if search.rounds else None
        if listed:
            random.Random(seed).shuffle(listed)
        configurations = Configurations(search, Study(search, store), store, listed)
        pool, watcher, spent = Played(store, curves), MagicMock(), 0
        runs = TrialRuns(store, Lanes(lambda held: not held), lambda: cast("Any", pool), watcher)
        asyncio.run(configurations.run(runs, lambda: 1))
        for sentences, dev in pool.ended:
            spent += sentences
            if dev is not None and dev >= best - NEAR:
                return spent / total
    return 1.0


def searches(seed: int) -> dict[str, Search]:
    """The searches that are compared."""
    halving = Asha(name="asha", first_evaluation=1, reduction_factor=2)
    most = 10 * len(list(itertools.product(*GRID.values())))
    tpe = Sampler(name="tpe", configurations=most, seed=1000 * seed)
    return {
        "grid in random order": search_of(),
        "TPE": search_of(sampler=tpe),
        "ASHA on the grid": search_of(pruner=halving),
        "TPE with ASHA": search_of(sampler=tpe, pruner=halving),
    }


def main() -> None:
    """Print the shares over all repetitions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--window", type=int, default=study.TPE_WINDOW)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    study.TPE_WINDOW = options.window
    if options.measure:
        measure()
    curves = read_curves()
    best = max(map(max, curves.values()))
    near = sum(max(curve) >= best - NEAR for curve in curves.values())
    print(f"{len(curves)} configurations; best dev {best:.2f}; {near} within {NEAR} of it")
    for name in searches(0):
        shares = [share(searches(seed)[name], curves, seed) for seed in range(options.repetitions)]
        missed = sum(value == 1.0 for value in shares)
        print(
            f"{name}: mean {fmean(shares):.2f}, median {median(shares):.2f}, "
            f"{min(shares):.2f} to {max(shares):.2f}; the whole grid in {missed} of {len(shares)}"
        )


if __name__ == "__main__":
    main()
