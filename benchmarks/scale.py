"""Cost of a large sweep's ledger: 100,000 records, of which three quarters are pruned.

The records are written in batches of 256, as the trials of a sweep end, each into a file of its own
with a history of 20 points, and each batch is compacted as the sweep does it. Only the last batches
are timed; what is before them is written as compaction leaves it. Then come the start of a trial
(`Store.get` of a key that is not there), what a driver reads when it begins (`CompleteTrials`), and
claimants that take and give back a claim in one folder, 16 at a time. With `--bucket`, requests are
counted instead: those of a trial, of the claimants, and of trials that run for half a minute, to
moto's server, which is installed into an environment of its own first.

    python benchmarks/scale.py [--records 100000] [--batches 4] [--claimants 1000]
    python benchmarks/scale.py --bucket [--claimants 1000] [--running 200]

A short try: `python benchmarks/scale.py --records 2000 --batches 1 --claimants 100`.
"""

import argparse
import functools
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import pyarrow as pa
from store import made_up

from harness.claims import Claim
from harness.sweeps.trial_runs import CompleteTrials
from harness.trials.record import Record
from harness.trials.remote_store import RemoteStore
from harness.trials.schema import SCHEMA
from harness.trials.store import SMALL_FILES, Store
from tests.remote.buckets import Proxy, installed, serving, straight

POINTS, SLICE, AT_A_TIME = 20, 2048, 16
HELD_SECONDS = 30.0


def main() -> None:
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--claimants", type=int, default=1000)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--running", type=int, default=200)
    options = parser.parse_args()
    if options.bucket:
        in_a_bucket(options.claimants, options.running)
        return
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
        show("what a driver reads when it begins", *seconds(lambda: CompleteTrials(store)))
        print(f"{len(list(store.folder.glob('*.parquet')))} files")
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            whole = seconds(lambda: list(pool.map(claim, [store] * options.claimants)))
        show(f"{options.claimants} claims", *whole)


def in_a_bucket(claimants: int, running: int) -> None:
    """Print the requests to a bucket."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HARNESS_CACHE"] = folder
        with serving(installed(Path(folder) / "moto"), Path(folder)) as port:
            proxy = Proxy(port)
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{proxy.port}"
            os.environ.update(AWS_ACCESS_KEY_ID="a-user", AWS_SECRET_ACCESS_KEY="a-secret")
            straight(port).create_dir("a-bucket")
            store = RemoteStore("s3://a-bucket/results/trials")
            store.check_writable()
            record = ended(0, random.Random(0))
            with counted("a trial: look-up, claim, log and record", proxy):
                store.finished_or_run(record.key, "a trial", lambda: logged(store, record))
            with counted("a claim and its end", proxy):
                hold(store, 0.0)
            with (
                counted(f"{claimants} claims, {AT_A_TIME} at a time", proxy),
                ThreadPoolExecutor(AT_A_TIME) as pool,
            ):
                list(pool.map(hold, [store] * claimants, [0.0] * claimants))
            with (
                counted(f"{running} trials of a process for {HELD_SECONDS:.0f} s", proxy),
                ThreadPoolExecutor(running) as pool,
            ):
                list(pool.map(hold, [store] * running, [HELD_SECONDS] * running))


def hold(store: Store, pause: float) -> None:
    """Hold the claim of a trial of one's own for some seconds."""
    with store.claimed(key(random.Random()), "a trial"):
        time.sleep(pause)


def logged(store: Store, record: Record) -> Record:
    """The record of a trial that has printed a line."""
    with store.logging(record.key) as path:
        path.write_text("a line")
    return record


@contextmanager
def counted(measured: str, proxy: Proxy) -> Iterator[None]:
    """Print how many requests there are in the block: reads are GET and HEAD, others are writes."""
    before, began = len(proxy.requests), time.perf_counter()
    yield
    clock, requests = time.perf_counter() - began, proxy.requests[before:]
    reads = sum(request.startswith((b"GET", b"HEAD")) for request in requests)
    print(f"{measured}: {reads} reads, {len(requests) - reads} writes, {clock:.1f} s", flush=True)


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
