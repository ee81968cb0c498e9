"""How long `harness table` takes on a store of 10,000 trials: `python benchmarks/table.py`.

End to end as a user meets it: a new process each time, Python start-up and imports included, output piped.
The store is compacted; it holds 8,000 search trials and 2,000 final ones (100 rows of 20 seeds). The ratio is
to a process that does nothing but `import pyarrow`, the floor for anything that reads Parquet.

Last measured, on two cores nothing else running: 0.68 s (0.61 to 0.76); ratio 6.1 (`import pyarrow` 0.11 s).
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.trials.store import Store

REPOSITORY = Path(__file__).resolve().parent.parent
TRIALS, ROWS, SEEDS = 10_000, 100, 20
REPEATS = 7
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")


def main() -> None:
    """Make the store, time both processes in turn, print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Store(folder))
        table, floor = [], []
        for _ in range(REPEATS):
            table.append(seconds(["-m", "harness", "table", "--store", folder]))
            floor.append(seconds(["-c", "import pyarrow"]))
    median, bare = statistics.median(table), statistics.median(floor)
    spread = f"{min(table):.2f} to {max(table):.2f}"
    print(f"harness table, {TRIALS} trials: {median:.2f} s (median of {REPEATS}, {spread})")
    print(f"python -c 'import pyarrow': {bare:.2f} s; ratio {median / bare:.1f}")


def fill(store: Store) -> None:
    """Made-up trials, folded into one file."""
    generator = random.Random(0)
    for number in range(TRIALS):
        final = number < ROWS * SEEDS
        row = number % ROWS
        scores = {name: generator.gauss(75, 1) for name in TASKS}
        store.write(
            {
                "key": f"{generator.getrandbits(128):032x}",
                "status": "finished",
                "role": "final" if final else "search",
                "method": f"method{row % 10}",
                "setting": "unsup",
                "encoder": f"encoder{row // 10}",
                "seed": number,
                "configuration": {f"hyperparameter{index}": index + row for index in range(20)}
                | {"learning_rate": 1e-5 if final else generator.random()},
                "dev": {"stsb-dev": scores["avg"] + 5, "stsb-dev-start": 50.0},
                "test": scores if final else {},
                "steps": 15_625,
                "versions": {"torch": "2", "transformers": "5", "ray": "2"},
                "source_digest": f"source{row % 10}",
                "data_digest": "data",
                "model_digest": f"model{row // 10}",
                "protocol": 1,
            }
        )
    store.compact()


def seconds(arguments: list[str]) -> float:
    """Wall seconds of one Python process."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
