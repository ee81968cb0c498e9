"""Compaction: every trial stays once, wherever it is killed, and the files stay few."""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from harness.trials.record import Record
from harness.trials.record_files import COMPACTED, ROWS_TOGETHER, read_rows
from harness.trials.store import Store
from tests.trials.test_store import parquets, record, store, write

__all__ = ["store"]  # a fixture

AtEachWrite = Callable[[Callable[[Path], Any]], None]


def rows(store: Store) -> list[int]:
    """The rows of the files, sorted by number."""
    found = (read_rows(path, ("seed",))["seed"].to_pylist() for path in parquets(store))
    return sorted(chain.from_iterable(found))


def put_from_elsewhere(store: Store, *records: Record, name: str = "") -> None:
    """Put the one file of another store with these records into the folder of this one."""
    apart = Store(store.folder.with_name("apart"))
    for each in records:
        apart.write(each)
    apart.compact(at_least=2)
    [path] = parquets(apart)
    path.rename(store.folder / (name or path.name))


def check(store: Store, numbers: range) -> None:
    """Every trial is there once and whole."""
    assert rows(store) == list(numbers)
    reading = store.read()
    assert reading.unreadable == []
    assert sorted(reading.records(), key=lambda row: row.seed) == [record(n) for n in numbers]


@pytest.mark.slow
def test_compacted_files_are_folded_again_and_stay_few(store: Store) -> None:
    for number in range(0, 96, 4):
        write(store, range(number, number + 4))
        assert store.compact(at_least=5) == 0
        assert store.compact(at_least=4) == 4
        assert len(parquets(store)) <= 4  # 4, more than twice 4, more than twice 16, ...
    check(store, range(96))


@pytest.mark.slow
def test_row_groups_of_several_files_are_merged_in_order(store: Store) -> None:
    """Files of many row groups, whose keys interleave, one of them with a key of another."""
    write(store, [0])
    [path] = parquets(store)
    one, count = read_rows(path), 9 * ROWS_TOGETHER + 1
    path.unlink()

    def many(*numbers: int) -> pa.Table:
        table = one.take(pa.array([0] * len(numbers)))
        for name, values in (("key", [f"{n:032x}" for n in numbers]), ("seed", numbers)):
            values = pa.array(values, table[name].type)
            table = table.set_column(table.column_names.index(name), name, values)
        return table

    for name, numbers in (("a", range(0, count, 2)), ("b", [*range(1, count, 2), count - 1])):
        path = store.folder / f"{COMPACTED}{name}.parquet"
        pq.write_table(many(*numbers), path, row_group_size=ROWS_TOGETHER)
    assert len(rows(store)) == count + 1
    store.compact()
    [path] = parquets(store)
    kept = pq.read_metadata(path)
    sizes = [kept.row_group(group).num_rows for group in range(kept.num_row_groups)]
    assert sizes == [ROWS_TOGETHER] * 9 + [1], "whole row groups, except for the last one"
    assert read_rows(path).equals(many(*range(count)))


@pytest.mark.slow
def test_unsorted_compacted_file_is_folded_too(store: Store) -> None:
    """Earlier versions wrote the rows in the order of the files' names."""
    write(store, range(9))
    tables = [read_rows(path) for path in parquets(store)]
    for path in parquets(store):
        path.unlink()
    pq.write_table(pa.concat_tables(reversed(tables)), store.folder / "compact-old.parquet")
    assert store.get(record(4).key) == record(4)
    write(store, range(9, 14))
    assert store.compact(at_least=1) == 5
    check(store, range(14))
    assert len(parquets(store)) == 1


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


def test_full_disk_and_another_process_leave_the_store_as_it_was(
    store: Store, at_each_write: AtEachWrite, caplog: pytest.LogCaptureFixture
) -> None:
    write(store, range(3))
    before, disk = parquets(store), ["full"]

    def fill(_: Path) -> None:
        if disk:
            raise OSError(28, "No space left on device")

    with FileLock(store.folder / ".compaction.lock"):
        assert Store(store.folder).compact(at_least=1) == 0, "another process compacts"
    assert not caplog.messages
    at_each_write(fill)
    assert store.compact(at_least=1) == 0
    disk.clear()
    assert "No space left on device" in caplog.text
    assert parquets(store) == before
    assert store.compact(at_least=1) == 3


def test_file_with_damaged_histories_does_not_stop_the_others(store: Store) -> None:
    write(store, range(3))
    store.compact(at_least=1)
    [path] = parquets(store)
    content = bytearray(path.read_bytes())
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema.startswith("history"))
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    write(store, range(3, 6))
    assert store.compact(at_least=1) == 3
    assert path in parquets(store)
    assert len(parquets(store)) == 2
    [(name, reason)] = store.read().unreadable
    assert name == path.name
    assert "\n" not in reason
    assert sorted(store.read(("seed",)).table["seed"].to_pylist()) == list(range(6))


def test_compactions_without_a_common_lock_lose_nothing(
    store: Store, at_each_write: AtEachWrite
) -> None:
    """On a file system without locks a second one folds the same files in the middle of a first."""
    write(store, range(6))
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
    """Files of two stores in one folder: the compacted row stays, the failure goes."""
    store.write(record(1))
    store.compact(at_least=1)
    put_from_elsewhere(store, record(1, dev={"graded-dev": 7.0}, host="another"))
    with caplog.at_level(logging.WARNING):
        store.compact()
    assert f"trial {record(1).key} has finished twice with another dev" in caplog.text
    check(store, range(1, 2))
    put_from_elsewhere(store, record(1, status="failed", reason="odd"))
    store.write(record(2, status="failed", reason="odd"))
    store.compact()
    statuses = store.read().table.sort_by("seed")["status"].to_pylist()
    assert statuses == ["finished", "failed"]
    assert len(parquets(store)) == 2


def unfinished(number: int, reason: str) -> Record:
    """A trial that its search has pruned, or, with an odd number, one that has failed."""
    return record(number, status="failed" if number % 2 else "pruned", reason=reason)


def start(store: Store, numbers: range, reason: str = "first") -> None:
    """Write trials that have not finished."""
    for number in numbers:
        store.write(unfinished(number, reason))


def reasons(store: Store) -> list[str | None]:
    """Why each trial has not finished, sorted by number, as a reader of all of them sees it."""
    found = sorted(store.read().records(), key=lambda row: row.seed)
    assert [store.get(row.key) for row in found] == found
    return [row.reason for row in found]


@pytest.mark.slow
def test_the_newest_attempt_of_a_folded_trial_counts(store: Store) -> None:
    start(store, range(2))
    store.compact(at_least=1)
    for attempt in ("second", "third"):
        start(store, range(2), attempt)
        assert reasons(store) == [attempt] * 2
        assert store.compact(at_least=1) == 2
        assert reasons(store) == [attempt] * 2
        assert len(parquets(store)) == 1
    store.write(record(0))
    for _ in range(2):
        assert reasons(store) == [None, "third"]
        store.compact()
    assert len(parquets(store)) == 1


@pytest.mark.slow
def test_what_is_written_during_a_compaction_is_not_removed_by_it(
    store: Store, at_each_write: AtEachWrite
) -> None:
    """At the write of the folded rows, one trial is tried again, and another one finishes."""
    start(store, range(3))
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
def test_the_next_compaction_heals_one_that_was_killed_at_any_step(tmp_path: Path) -> None:
    """The store has folded trials, attempts of some that follow, and new ones."""
    step, finished = 0, False
    while not finished:
        store = Store(tmp_path / str(step))
        for number in range(6):
            store.write(record(number) if number < 2 else unfinished(number, "first"))
        store.compact(at_least=1)
        for late in (record(4), record(6), unfinished(2, "second"), unfinished(3, "second")):
            store.write(late)
        with pytest.MonkeyPatch.context() as patch:
            calls = killed_at(patch, step)
            with suppress(Killed):
                store.compact(at_least=1)
            finished = calls() <= step
        for _ in range(2):
            assert reasons(store) == [None, None, "second", "second", None, "first", None]
            assert set(rows(store)) == set(range(7))
            store.compact(at_least=1)
        assert rows(store) == list(range(7))
        assert not list(store.folder.glob(".compact-*"))
        step += 1
    assert step > 8


@pytest.mark.slow
def test_what_finished_wins_over_a_failure_whatever_file_it_is_in(tmp_path: Path) -> None:
    """One of two compacted files, or the trial's own."""
    names = ["compact-a.parquet", "compact-b.parquet", f"{record(1).key}.parquet"]
    for finished_in in names:
        store = Store(tmp_path / finished_in / "store")
        store.folder.mkdir(parents=True)
        for name in names:
            row = record(1) if name == finished_in else unfinished(1, "odd")
            put_from_elsewhere(store, row, name=name)
        for _ in range(2):
            assert reasons(store) == [None]
            assert store.finished_keys() == {record(1).key}
            store.compact()
        assert len(parquets(store)) == 1


def test_a_listing_that_misses_both_sides_of_a_fold_is_made_up_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that changes while it is listed may show neither the old files nor the new one."""
    start(store, range(3))
    lists = os.scandir
    answers = iter([[next(lists(store.folder))]])
    monkeypatch.setattr(os, "scandir", lambda *where: next(answers, None) or lists(*where))
    assert len(store.read().records()) == 3
