"""What a trial of a sweep costs beyond its own training and evaluation: the first one, and each further one.

Sweeps of 1 and of 11 tiny trials (embedded encoder, one worker); the difference is the price of ten more, less the
seconds that their records say were spent training and evaluating.

    python benchmarks/overhead.py
"""

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
    """Seconds of a sweep with so many trials, and seconds of its trials' training and evaluation."""
    space = folder / f"{seeds}.yaml"
    space.write_text(SPACE.format(seeds=list(range(seeds))))
    store = folder / f"store-{seeds}"
    cpus = str(os.cpu_count() or 1)  # one worker at a time
    started = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "harness",
            "sweep",
            space,
            "--store",
            store,
            "--cpus-per-trial",
            cpus,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - started
    return seconds, sum(
        row["training_seconds"] + row["evaluation_seconds"] for row in Store(store).read().rows()
    )


def main() -> None:
    """Print both prices."""
    with tempfile.TemporaryDirectory() as name:
        sweep(Path(name), 2)  # warm-up: tokenised corpus, digests, file caches
        one, one_work = sweep(Path(name), 1)
        eleven, eleven_work = sweep(Path(name), 11)
    further = (eleven - one - (eleven_work - one_work)) / 10
    print(
        f"first trial: {one - one_work:.1f} s beyond its work (start of Python, Ray and a worker, imports, table)"
    )
    print(f"each further trial: {further:.2f} s beyond its work")


if __name__ == "__main__":
    main()
