"""Cost of the size of a store: start of a trial, `harness list trials`, `harness table`.

The stores have 1,000, 10,000 and 100,000 made-up trials. A trial has a history of 250 evaluations
(500 points) and 20 test details. The shares are those of a sweep with large grids: a fifth is final
trials, 20 seeds of a configuration, and the others are search trials, each with a configuration of
its own. 255 trials have files of their own, as many as a sweep leaves after a round; the others
are in files of the sizes that compaction leaves.

A start of a trial is `Store.get` of a key that is not there, which is all that a trial asks of the
store before it runs; the end is `Store.write`. Both are measured in a process that has imported
everything, the median of some calls. The two commands are measured as a user meets them, each in a
new process, with output into a pipe: wall seconds, processor seconds (which other work on the
machine disturbs less) and the largest memory.

    python benchmarks/store.py [--trials 1000 10000 100000] [--rounds 5]

A short try: `python benchmarks/store.py --trials 1000 2000 --rounds 1`.
"""

import argparse
import math
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness import PROTOCOL
from harness.evaluation.scores import Uncertainty
from harness.trials.compaction import COMPACTED
from harness.trials.record import Record
from harness.trials.record_files import write_rows
from harness.trials.schema import SCHEMA
from harness.trials.store import Store

REPOSITORY = Path(__file__).resolve().parent.parent
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
SEEDS, OWN_FILES, SLICE, EVALUATIONS = 20, 255, 2048, 250


def main() -> None:
    """Print one line for each size of store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("trials  files  MiB  start, end (ms)  list trials: s, CPU s, MiB  table: s, CPU s, MiB")
    for trials in options.trials:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder) / "trials")
            # In another process, because a child counts the memory of its parent as its own.
            filling = multiprocessing.get_context("spawn").Process(
                target=fill, args=(store, trials)
            )
            filling.start()
            filling.join()
            print(line(store, trials, options.rounds), flush=True)


def line(store: Store, trials: int, rounds: int) -> str:
    """The measurements of one store as text."""
    numbers = random.Random(1)

    def key() -> str:
        return f"{numbers.getrandbits(128):032x}"

    files = [path for path in store.folder.iterdir() if path.suffix == ".parquet"]
    size = sum(path.stat().st_size for path in files) / 2**20
    start = median(lambda: store.get(key()), 10 * rounds)
    end = median(lambda: store.write(made_up(0, key(), numbers)), rounds)
    listed = [command(store, "list", "trials") for _ in range(rounds)]
    printed = [command(store, "table") for _ in range(rounds)]
    shown = [
        ", ".join(f"{statistics.median(column):.2f}" for column in zip(*found, strict=True))
        for found in (listed, printed)
    ]
    times = f"{1000 * start:.1f}, {1000 * end:.1f}"
    return f"{trials:6}  {len(files):5}  {size:3.0f}  {times:15}  {shown[0]:26}  {shown[1]}"


def median(call: Callable[[], object], times: int) -> float:
    """The median seconds of a call."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def command(store: Store, *words: str) -> tuple[float, float, float]:
    """Run a verb in a new process; its wall seconds, processor seconds and largest memory (MiB)."""
    started = time.perf_counter()
    arguments = [sys.executable, "-m", "harness", *words, "--store", str(store.folder)]
    process = subprocess.Popen(arguments, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    seconds = time.perf_counter() - started
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def fill(store: Store, trials: int) -> None:
    """Write made-up trials into files of their own, and into files as compaction leaves them."""
    generator = random.Random(0)
    keys = [f"{generator.getrandbits(128):032x}" for _ in range(trials)]
    own = min(OWN_FILES, trials)
    for number in range(own):
        store.write(made_up(number, keys[number], generator))
    first = own
    while first < trials:
        # Compaction leaves a file alone that is more than twice as large as what it has gathered.
        left = trials - first
        size = left if left < 3 * OWN_FILES else math.ceil(left * 2 / 3)
        numbers = sorted(range(first, first + size), key=lambda number: keys[number])
        parts = (
            table([made_up(number, keys[number], generator) for number in numbers[at : at + SLICE]])
            for at in range(0, size, SLICE)
        )
        write_rows(parts, store.folder / f"{COMPACTED}{first:032x}.parquet")
        first += size


def table(records: list[Record]) -> pa.Table:
    """The rows of records, with made-up histories."""
    rows = [replace(record, history=[]).row() for record in records]
    plain = pa.Table.from_pylist(rows, schema=SCHEMA)
    return plain.set_column(SCHEMA.names.index("history"), "history", histories(len(rows)))


def histories(rows: int) -> pa.ListArray:
    """Histories, in this number: training loss and dev score at each of EVALUATIONS."""
    generator, points = np.random.default_rng(0), 2 * EVALUATIONS
    step = np.tile(np.repeat(125 * np.arange(EVALUATIONS), 2), rows)
    metric = pa.DictionaryArray.from_arrays(
        np.tile([0, 1], rows * EVALUATIONS), ["loss", "dev"]
    ).cast(pa.string())
    stage = pa.repeat("contrastive", rows * points)
    parts = [pa.array(step), stage, metric, pa.array(generator.random(rows * points))]
    point = SCHEMA.field("history").type.value_type
    return pa.ListArray.from_arrays(
        pa.array(np.arange(rows + 1) * points, pa.int32()),
        pa.StructArray.from_arrays(parts, fields=list(point)),
    ).cast(SCHEMA.field("history").type)


def made_up(number: int, key: str, generator: random.Random) -> Record:
    """The record of a trial that never ran."""
    final, group = number % 5 == 0, number // (5 * SEEDS)
    scores = {name: generator.gauss(75, 1) for name in TASKS}
    hyperparameters = {f"hyperparameter{index}": index for index in range(20)}
    return Record(
        key=key,
        status="finished",
        role="final" if final else "search",
        method=f"method{group % 10}",
        setting="unsup",
        encoder=f"encoder{group // 10 % 10}",
        seed=number,
        configuration={
            **hyperparameters,
            "group": group if final else number,
            "learning_rate": 1e-5 if final else generator.random(),
        },
        search="search",
        suite="sts",
        selected_by="stsb-dev",
        dev_before=50.0,
        dev={"stsb-dev": scores["avg"] + 5},
        test=scores if final else {},
        details={f"stsb/figure{index}": generator.random() for index in range(20)},
        uncertainty={name: Uncertainty(0.5, 74.0, 76.0) for name in TASKS} if final else {},
        history=histories(1).to_pylist()[0],
        steps=31_250,
        wall_seconds=100.0,
        versions={"torch": "2", "transformers": "5", "ray": "2"},
        source_digest=f"source{group % 10}",
        data_digest="data",
        model_digest=f"model{group // 10 % 10}",
        protocol=PROTOCOL,
    )


if __name__ == "__main__":
    main()
