"""What a trial of a sweep costs beyond its training and evaluation.

The first trial of a sweep is measured, and each further one. The sweeps have 1 and 11 tiny trials
with the embedded encoder and one worker. The difference is the price of ten more trials, without
the seconds that, as their records say, training and evaluation took.

    python benchmarks/overhead.py [--further 10]

A short try: `python benchmarks/overhead.py --further 1`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.trials.store import Store

SPACE = """
suite: graded
select: {{metric: graded-dev}}
final: {{seeds: {seeds}}}
encoders: [tiny-bert]
set: {{sentences: graded-sentences, max_steps: 2, batch_size: 8}}
methods: {{simcse: }}
"""


def sweep(folder: Path, seeds: int) -> tuple[float, float]:
    """Run a sweep with one trial for each of so many seeds.

    Returns its seconds, and the seconds of training and evaluation in all of its trials.
    """
    space = folder / f"{seeds}.yaml"
    space.write_text(SPACE.format(seeds=list(range(seeds))))
    store = folder / f"store-{seeds}"
    # With all CPUs for one trial, there is one worker at a time.
    cpus = str(os.cpu_count() or 1)
    options = ["--store", str(store), "--cpus-per-trial", cpus]
    # A process of its own, because the start of Python and of Ray is part of the price.
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "harness", "sweep", str(space), *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - started
    records = Store(store).read().records()
    work = sum(
        (record.training_seconds or 0) + (record.evaluation_seconds or 0) for record in records
    )
    return seconds, work


def main() -> None:
    """Print what the first trial and each further trial cost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--further", type=int, default=10, help="trials after the first one")
    further = parser.parse_args().further
    # The first sweep also fills the caches: tokenised corpus, digests, files in memory.
    with tempfile.TemporaryDirectory() as name:
        sweep(Path(name), 1)
    with tempfile.TemporaryDirectory() as name:
        one, one_work = sweep(Path(name), 1)
        all_of_them, all_work = sweep(Path(name), 1 + further)
    each = (all_of_them - one - (all_work - one_work)) / further
    print(
        f"first trial: {one - one_work:.1f} s beyond its work "
        f"(start of Python, Ray and a worker, imports, table)"
    )
    print(f"each further trial: {each:.2f} s beyond its work")


if __name__ == "__main__":
    main()
