"""Kills while results are partly stored: the same work done again ends in the same store.

A process of its own runs eight trials: it claims each, writes its weights, then its record, folds
small files, and writes the flat table. It is killed at one of 20 moments, each before another
operation on a file, and the work is begun again. The store is compared row by row with that of an
undisturbed run.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.files import content_digest, written_whole
from harness.trials.publishing import write_flat
from harness.trials.record import Record
from harness.trials.schema import SCHEMA
from harness.trials.store import Store
from tests.programs import started
from tests.trials.test_store import record

pytestmark = [pytest.mark.slow, pytest.mark.process]

KILLS = 20
TRIALS = range(8)
EVENTS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"}
"""Operations on files, before each of which a process may be killed"""


def work(folder: Path, run: Callable[[Store, Record], Record]) -> None:
    """Run what the store lacks, by `run`, which writes weights, too; write the flat table."""
    store = Store(folder / "trials")
    for number in TRIALS:
        result = record(number)
        again = functools.partial(run, store, result)
        store.finished_or_run(result.key, f"trial {number}", again)
        store.compact(at_least=3)
    write_flat(store)


def trained(store: Store, result: Record) -> Record:
    """Write the weights of a trial; its record has their digest."""
    weights = store.weights(result.key)
    weights.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(weights) as temporary:
        temporary.write_bytes(result.key.encode() * 1000)
    digest = content_digest(weights)
    return Record(**{**vars(result), "weights_digest": digest})


def work_until(folder: Path, moment: int) -> None:
    """Work, and be killed before the operation with this number; `told` has how many there were."""
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event in EVENTS and str(folder) in str(arguments[0]):
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    work(folder, trained)
    (folder / "told").write_text(str(count))


def state(folder: Path) -> tuple[pa.Table, pa.Table, dict[str, bytes]]:
    """The rows of a store in the order of their keys, its flat table, and its weights."""
    reading = Store(folder / "trials").read(SCHEMA.names)
    assert reading.unreadable == []
    # `harness clean` removes what a killed writer left under another name.
    files = (folder / "trials-weights").glob("*.safetensors")
    weights = {path.name: path.read_bytes() for path in files}
    flat = pq.read_table(folder / "trials-flat.parquet")
    return reading.table.sort_by("key"), flat.sort_by("key"), weights


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A store that nobody has disturbed, and the number of operations that it took."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert killed_at(folder, 0) == 0
    return folder, int((folder / "told").read_text())


def killed_at(folder: Path, moment: int) -> int:
    """The exit code of the work that is killed at this moment; 0: at none."""
    with started(__name__, str(folder), str(moment), environment=os.environ) as process:
        return process.wait(300)


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_store_that_was_partly_written(
    kill: int, undisturbed: tuple[Path, int], tmp_path: Path
) -> None:
    expected, operations = undisturbed
    assert operations > 5 * KILLS
    moment = 1 + (kill * operations + operations // 2) // KILLS
    assert killed_at(tmp_path, moment) == -signal.SIGKILL
    assert killed_at(tmp_path, 0) == 0
    rows, flat, weights = state(tmp_path)
    expected_rows, expected_flat, expected_weights = state(expected)
    assert rows.num_rows == len(TRIALS)
    assert rows.to_pylist() == expected_rows.to_pylist()
    assert flat.to_pylist() == expected_flat.to_pylist()
    assert weights == expected_weights


def test_another_result_is_noticed(undisturbed: tuple[Path, int], tmp_path: Path) -> None:
    """The control: a comparison that cannot fail would prove nothing."""

    def other(store: Store, result: Record) -> Record:
        record = trained(store, result)
        return Record(**{**vars(record), "test": {"graded": float(result.seed)}})

    work(tmp_path, other)
    assert state(tmp_path)[0].to_pylist() != state(undisturbed[0])[0].to_pylist()


if __name__ == "__main__":
    work_until(Path(sys.argv[1]), int(sys.argv[2]))
