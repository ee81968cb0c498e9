"""Seconds of `harness table` on a store of 10,000 trials.

They are measured as a user meets them: a new process each time, with its start and its imports, and
output into a pipe. The store is compacted. It holds 8,000 search trials and 2,000 final ones, which
make 100 rows of 20 seeds. The ratio is to a process that only does `import pyarrow`, which is the
least that a reader of Parquet needs.

    python benchmarks/table.py [--trials 10000] [--rounds 7]

A short try: `python benchmarks/table.py --trials 2000 --rounds 1`.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.trials.record import Record
from harness.trials.store import Store

REPOSITORY = Path(__file__).resolve().parent.parent
ROWS, SEEDS = 100, 20
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")


def main() -> None:
    """Print the medians of both processes, and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=10_000, help=f"{ROWS * SEEDS} of them final")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(Store(folder), options.trials)
        table, floor = [], []
        for _ in range(options.rounds):
            table.append(seconds(["-m", "harness", "table", "--store", folder]))
            floor.append(seconds(["-c", "import pyarrow"]))
    median, bare = statistics.median(table), statistics.median(floor)
    spread = f"median of {options.rounds}, {min(table):.2f} to {max(table):.2f}"
    print(f"harness table, {options.trials} trials: {median:.2f} s ({spread})")
    print(f"python -c 'import pyarrow': {bare:.2f} s; ratio {median / bare:.1f}")


def fill(store: Store, trials: int) -> None:
    """Write made-up trials, and fold them into one file."""
    generator = random.Random(0)
    for number in range(trials):
        store.write(made_up(number, generator))
    store.compact()


def made_up(number: int, generator: random.Random) -> Record:
    """The record of a trial that never ran; the first ROWS * SEEDS are final ones."""
    final, row = number < ROWS * SEEDS, number % ROWS
    scores = {name: generator.gauss(75, 1) for name in TASKS}
    hyperparameters = {f"hyperparameter{index}": index + row for index in range(20)}
    rate = 1e-5 if final else generator.random()
    return Record(
        key=f"{generator.getrandbits(128):032x}",
        status="finished",
        role="final" if final else "search",
        method=f"method{row % 10}",
        setting="unsup",
        encoder=f"encoder{row // 10}",
        seed=number,
        configuration={**hyperparameters, "learning_rate": rate},
        suite="sts",
        selected_by="stsb-dev",
        dev_before=50.0,
        dev={"stsb-dev": scores["avg"] + 5},
        test=scores if final else {},
        steps=15_625,
        versions={"torch": "2", "transformers": "5", "ray": "2"},
        source_digest=f"source{row % 10}",
        data_digest="data",
        model_digest=f"model{row // 10}",
        protocol=1,
    )


def seconds(arguments: list[str]) -> float:
    """Run a Python process, and return its wall seconds."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
