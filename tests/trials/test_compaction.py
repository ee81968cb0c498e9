"""Compaction: every trial stays once, wherever it is killed, and the files stay few."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from harness.trials import compaction, record_files
from harness.trials import store as store_module
from harness.trials.record import Record
from harness.trials.record_files import COMPACTED, read_rows
from harness.trials.store import Store

AtEachWrite = Callable[[Callable[[Path], Any]], None]
HISTORY = [
    {"step": step, "stage": "contrastive", "metric": "loss", "value": 1 / (1 + step)}
    for step in range(5)
]


def record(number: int, **different: Any) -> Record:
    """A finished trial; the order of the keys is not that of the numbers."""
    values = {
        "key": f"{7919 * number % 10007:032x}",
        "status": "finished",
        "role": "search",
        "method": "simcse",
        "setting": "unsup",
        "encoder": "tiny-bert",
        "seed": number,
        "configuration": {"learning_rate": number / 7},
        "selected_by": "graded-dev",
        "dev": {"graded-dev": 40.0 + number},
        "details": {"graded/figure": number / 3},
        "history": HISTORY,
        "started": datetime(2026, 1, 2, tzinfo=UTC),
    }
    return Record(**{**values, **different})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def parquets(store: Store) -> list[Path]:
    """The files that other readers see."""
    return sorted(store.folder.glob("[!.]*.parquet"))


def rows(store: Store) -> list[int]:
    """The rows of the files, sorted by number."""
    found = (read_rows(path, ("seed",))["seed"].to_pylist() for path in parquets(store))
    return sorted(chain.from_iterable(found))


def check(store: Store, numbers: range) -> None:
    """Every trial is there once and whole."""
    assert rows(store) == list(numbers)
    reading = store.read()
    assert reading.unreadable == []
    assert sorted(reading.records(), key=lambda row: row.seed) == [record(n) for n in numbers]


# Files


@pytest.mark.slow
def test_a_compacted_file_is_sorted_and_in_small_row_groups(store: Store) -> None:
    for number in range(40):
        store.write(record(number))
    store.compact(at_least=1)
    [path] = parquets(store)
    keys = read_rows(path, ())["key"].to_pylist()
    assert keys == sorted(keys)


@pytest.mark.slow
def test_compacted_files_are_folded_again_and_stay_few(store: Store) -> None:
    number, most = 0, 0
    for _ in range(24):
        for _ in range(4):
            store.write(record(number))
            number += 1
        assert store.compact(at_least=4) == 4
        most = max(most, len(parquets(store)))
    assert most <= 4  # 4, more than twice 4, more than twice 16, ...
    check(store, range(number))


@pytest.mark.slow
def test_row_groups_of_several_files_are_merged_in_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of many row groups, whose keys interleave, one of them with a key of another."""
    monkeypatch.setattr("harness.trials.record_files.ROWS_TOGETHER", 3)
    monkeypatch.setattr(compaction, "ROWS_TOGETHER", 3)
    for number in range(0, 40, 2):
        store.write(record(number))
    store.compact(at_least=1)
    apart = Store(store.folder.with_name("apart"))
    for number in [0, *range(1, 40, 2)]:
        apart.write(record(number))
    apart.compact(at_least=1)
    [path] = parquets(apart)
    path.rename(store.folder / path.name)
    assert len(rows(store)) == 41
    store.compact()
    [path] = parquets(store)
    kept = pq.read_metadata(path)
    sizes = [kept.row_group(group).num_rows for group in range(kept.num_row_groups)]
    assert sizes == [3] * 13 + [1], "whole row groups, except for the last one"
    check(store, range(40))


@pytest.mark.slow
def test_unsorted_compacted_file_is_folded_too(store: Store) -> None:
    """Earlier versions wrote the rows in the order of the files' names."""
    for number in range(9):
        store.write(record(number))
    tables = [read_rows(path) for path in parquets(store)]
    for path in parquets(store):
        path.unlink()
    pq.write_table(pa.concat_tables(reversed(tables)), store.folder / "compact-old.parquet")
    assert store.get(record(4).key) == record(4)
    for number in range(9, 14):
        store.write(record(number))
    assert store.compact(at_least=1) == 5
    check(store, range(14))
    assert len(parquets(store)) == 1


# Faults


class Killed(BaseException):
    """Stands for the end of the process."""


STEPS = ((os, "fsync"), (Path, "replace"), (Path, "unlink"))


def killed_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Callable[[], int]:
    """From the call number `step` of STEPS on, every one raises; the number of calls so far."""
    calls = 0

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > step:
                raise Killed
            return original(*args, **kwargs)

        return call

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, counting(getattr(owner, name)))
    return lambda: calls


@pytest.mark.slow
def test_the_next_compaction_heals_one_that_was_killed_at_any_step(tmp_path: Path) -> None:
    step, finished = 0, False
    while not finished:
        store = Store(tmp_path / str(step))
        for number in range(4):
            store.write(record(number))
        store.compact(at_least=1)
        for number in range(4, 8):
            store.write(record(number))
        with pytest.MonkeyPatch.context() as patch:
            calls = killed_at(patch, step)
            with suppress(Killed):
                store.compact(at_least=1)
            finished = calls() <= step
        assert sorted(row.seed for row in store.read().records()) == list(range(8))
        assert set(rows(store)) == set(range(8))
        store.compact()  # it folds what is there twice, however few files there are
        check(store, range(8))
        assert not list(store.folder.glob(".compact-*"))
        step += 1
    assert step > 8


KILLED_WHILE_IT_REMOVES = """
import os, signal, sys
from pathlib import Path
from harness.trials.store import Store
remove, left = Path.unlink, iter(range(3))
def unlink(self, **options):
    if self.suffix == ".parquet" and next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    remove(self, **options)
Path.unlink = unlink
Store(sys.argv[1]).compact(at_least=1)
"""


@pytest.mark.process
def test_compaction_that_is_killed_by_the_system(store: Store) -> None:
    for number in range(8):
        store.write(record(number))
    words = [sys.executable, "-c", KILLED_WHILE_IT_REMOVES, str(store.folder)]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert len(rows(store)) == 8 + 5
    assert sorted(row.seed for row in store.read().records()) == list(range(8))
    store.compact()
    check(store, range(8))


def test_full_disk_leaves_the_store_as_it_was(
    store: Store, at_each_write: AtEachWrite, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        store.write(record(number))
    before = parquets(store)

    disk = ["full"]

    def write(_: Path) -> None:
        if disk:
            raise OSError(28, "No space left on device")

    at_each_write(write)
    assert store.compact(at_least=1) == 0
    disk.clear()
    assert "No space left on device" in caplog.text
    assert parquets(store) == before
    assert store.compact(at_least=1) == 3


def test_file_with_damaged_histories_does_not_stop_the_others(store: Store) -> None:
    for number in range(3):
        store.write(record(number))
    store.compact(at_least=1)
    [path] = parquets(store)
    content = bytearray(path.read_bytes())
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema.startswith("history"))
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    for number in range(3, 6):
        store.write(record(number))
    assert store.compact(at_least=1) == 3
    assert path in parquets(store)
    assert len(parquets(store)) == 2
    [(name, reason)] = store.read().unreadable
    assert name == path.name
    assert "\n" not in reason
    assert sorted(store.read(("seed",)).table["seed"].to_pylist()) == list(range(6))


# Several at once


def test_one_process_compacts_at_a_time(store: Store) -> None:
    for number in range(3):
        store.write(record(number))
    with FileLock(store.folder / ".compaction.lock"):
        assert Store(store.folder).compact(at_least=1) == 0
    assert store.compact(at_least=1) == 3


def test_compactions_without_a_common_lock_lose_nothing(
    store: Store, at_each_write: AtEachWrite
) -> None:
    """On a file system without locks a second one folds the same files in the middle of a first."""
    for number in range(6):
        store.write(record(number))
    others = iter([True])

    def fold(_: Path) -> None:
        for _ in others:
            (store.folder / ".compaction.lock").unlink()  # a lock that is not seen
            Store(store.folder).compact(at_least=1)

    at_each_write(fold)
    store.compact(at_least=1)
    store.compact()
    check(store, range(6))


def test_another_result_of_the_same_key_is_reported(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Two stores whose files were put into one folder: the row of the compacted file stays."""
    store.write(record(1))
    store.compact(at_least=1)
    apart = Store(store.folder.with_name("apart"))
    apart.write(record(1, dev={"graded-dev": 7.0}, host="another"))
    [path] = parquets(apart)
    path.rename(store.folder / path.name)
    with caplog.at_level(logging.WARNING):
        store.compact()
    assert f"trial {record(1).key} has finished twice with another dev" in caplog.text
    check(store, range(1, 2))


def test_failure_of_a_finished_trial_is_removed(store: Store) -> None:
    store.write(record(1))
    apart = Store(store.folder.with_name("apart"))
    apart.write(record(1, status="failed", reason="odd"))
    [path] = parquets(apart)
    path.rename(store.folder / path.name)
    store.write(record(2, status="failed", reason="odd"))
    store.compact()
    statuses = store.read().table.sort_by("seed")["status"].to_pylist()
    assert statuses == ["finished", "failed"]
    assert len(parquets(store)) == 2


# Trials that have not finished


def unfinished(number: int, reason: str) -> Record:
    """A trial that its search has pruned, or, with an odd number, one that has failed."""
    return record(number, status="failed" if number % 2 else "pruned", reason=reason)


def reasons(store: Store) -> list[str | None]:
    """Why each trial has not finished, sorted by number, as a reader of all of them sees it."""
    found = sorted(store.read().records(), key=lambda row: row.seed)
    assert [store.get(row.key) for row in found] == found
    return [row.reason for row in found]


def test_pruned_and_failed_trials_are_folded_with_the_finished_ones(store: Store) -> None:
    for number in range(4):
        store.write(unfinished(number, "first") if number < 3 else record(number))
    assert store.compact(at_least=5) == 0
    assert len(parquets(store)) == 4
    assert store.compact(at_least=4) == 4
    assert len(parquets(store)) == 1
    assert reasons(store) == ["first"] * 3 + [None]
    assert store.finished_keys() == {record(3).key}


def test_the_newest_attempt_of_a_folded_trial_counts(store: Store) -> None:
    for number in range(2):
        store.write(unfinished(number, "first"))
    store.compact(at_least=1)
    for attempt in ("second", "third"):
        for number in range(2):
            store.write(unfinished(number, attempt))
        assert reasons(store) == [attempt] * 2
        assert store.compact(at_least=1) == 2
        assert reasons(store) == [attempt] * 2
        assert len(parquets(store)) == 1
    store.write(record(0))
    assert reasons(store) == [None, "third"]
    store.compact()
    assert reasons(store) == [None, "third"]
    assert len(parquets(store)) == 1


def test_what_is_written_during_a_compaction_is_not_removed_by_it(
    store: Store, at_each_write: AtEachWrite
) -> None:
    """At the write of the folded rows, one trial is tried again, and another one finishes."""
    for number in range(3):
        store.write(unfinished(number, "first"))
    others = iter([unfinished(1, "second"), record(2)])

    def write(path: Path) -> None:
        if COMPACTED in path.name:
            for other in others:
                store.write(other)

    at_each_write(write)
    assert store.compact(at_least=3) == 3
    assert reasons(store) == ["first", "second", None]
    assert store.compact(at_least=1) == 2
    assert reasons(store) == ["first", "second", None]
    assert len(parquets(store)) == 1


@pytest.mark.slow
def test_no_kill_loses_or_takes_back_an_attempt(tmp_path: Path) -> None:
    """The store has a folded first attempt of each trial, a second one, and a finished trial."""
    step, finished = 0, False
    while not finished:
        store = Store(tmp_path / str(step))
        for number in range(4):
            store.write(unfinished(number, "first"))
        store.compact(at_least=1)
        for number in range(3):
            store.write(record(number) if number == 2 else unfinished(number, "second"))
        with pytest.MonkeyPatch.context() as patch:
            calls = killed_at(patch, step)
            with suppress(Killed):
                store.compact(at_least=1)
            finished = calls() <= step
        for _ in range(2):
            assert reasons(store) == ["second", "second", None, "first"]
            store.compact(at_least=1)
        assert len(parquets(store)) == 1
        step += 1
    assert step > 8


def test_a_reader_beside_compactions_sees_each_trial_once(store: Store) -> None:
    """A compaction begins between the listing of the files and the reading of them."""
    for number in range(6):
        store.write(unfinished(number, "first") if number < 4 else record(number))
    before = [path.name for path in parquets(store)]
    lists = record_files.listed

    def listed(*where: Any) -> list[Path]:
        paths = lists(*where)
        store.compact(at_least=1)
        return paths

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "listed", listed)
        assert reasons(store) == ["first"] * 4 + [None] * 2
    assert [path.name for path in parquets(store)] != before


def test_a_listing_that_misses_both_sides_of_a_fold_is_made_up_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that changes while it is listed may show neither the old files nor the new one."""
    for number in range(3):
        store.write(unfinished(number, "first"))
    [one, *_], lists = record_files.listed(store.folder), record_files.listed
    answers = iter([[one]])
    monkeypatch.setattr(store_module, "listed", lambda *where: next(answers, None) or lists(*where))
    assert len(store.read().records()) == 3
