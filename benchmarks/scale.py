"""Cost of a large sweep's ledger: 100,000 records, of which three quarters are pruned.

The records are written in batches of 256, as the trials of a sweep end, each into a file of its own
with a history of 20 points, and each batch is compacted as the sweep does it. Only the last batches
are timed; what is before them is written as compaction leaves it. Then come the start of a trial
(`Store.get` of a key that is not there), what a driver reads when it begins (`Settled`), and
claimants that take and give back a claim in one folder, 16 at a time.

    python benchmarks/scale.py [--records 100000] [--batches 4] [--claimants 1000]

A short try: `python benchmarks/scale.py --records 2000 --batches 1 --claimants 100`.
"""

import argparse
import functools
import random
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median

import pyarrow as pa
from store import made_up

from harness.claims import Claim
from harness.sweeps.trial_runs import Settled
from harness.trials.record import SCHEMA, Record
from harness.trials.store import SMALL_FILES, Store

POINTS, SLICE, AT_A_TIME = 20, 2048, 16


def main() -> None:
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--claimants", type=int, default=1000)
    options = parser.parse_args()
    numbers = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "trials")
        store.folder.mkdir()
        own = options.batches * SMALL_FILES
        fill(store, options.records - own, numbers)
        writes: list[float] = []
        for _ in range(options.batches):
            for number in range(SMALL_FILES):
                record = ended(number, numbers)
                writes.append(seconds(lambda record=record: store.write(record))[0])
            show(f"a compaction after {SMALL_FILES} trials", *seconds(store.compact))
        show("the end of a trial, its record", median(writes))
        starts = [seconds(lambda: store.get(key(numbers)))[0] for _ in range(50)]
        show("the start of a trial", median(starts))
        show("what a driver reads when it begins", *seconds(lambda: Settled(store)))
        print(f"{len(list(store.folder.glob('*.parquet')))} files")
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            whole = seconds(lambda: list(pool.map(claim, [store] * options.claimants)))
        show(f"{options.claimants} claims", *whole)


def key(numbers: random.Random) -> str:
    """A key that nothing else has."""
    return f"{numbers.getrandbits(128):032x}"


@functools.cache
def usual() -> Record:
    """A record of which the others differ in what is made up for each."""
    record = made_up(1, "", random.Random(0))
    return replace(record, history=record.history[:POINTS])


def ended(number: int, numbers: random.Random) -> Record:
    """The record of a search trial; three in four are pruned."""
    return replace(
        usual(),
        key=key(numbers),
        status="pruned" if number % 4 else "finished",
        seed=number,
        configuration={**usual().configuration, "learning_rate": numbers.random()},
        dev={"stsb-dev": numbers.gauss(75, 1)},
    )


def fill(store: Store, records: int, numbers: random.Random) -> None:
    """Write records into one file, in the order of their keys."""
    ordered = sorted((ended(number, numbers) for number in range(records)), key=lambda row: row.key)
    parts = (ordered[first : first + SLICE] for first in range(0, records, SLICE))
    store.add(pa.Table.from_pylist([each.row() for each in part], schema=SCHEMA) for part in parts)


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """The seconds of a call on the clock, and those of the processor."""
    began, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - used


def claim(store: Store) -> None:
    """Take the claim of a trial of one's own, and give it back."""
    claimed = Claim(store.claim(key(random.Random())))
    assert claimed.take() is None
    claimed.release()


def show(measured: str, clock: float, processor: float | None = None) -> None:
    """Print a measurement."""
    used = "" if processor is None else f", {processor:.2f} s of a processor"
    print(f"{measured}: {1000 * clock:.1f} ms{used}", flush=True)


if __name__ == "__main__":
    main()
