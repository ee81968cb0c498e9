"""The store: a trial is there whole and once, while others write, read or compact."""

import errno
import multiprocessing
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import UserError
from harness.trials.publishing import publish
from harness.trials.record import SCHEMA_VERSION, Record
from harness.trials.remote_store import store_at
from harness.trials.schema import SCHEMA
from harness.trials.store import Store

AtEachWrite = Callable[[Callable[[Path], Any]], None]
HISTORY = [
    {"step": 0, "stage": "augmentation", "metric": "divergence", "value": 0.1 + 0.2},
    {"step": 50, "stage": "contrastive", "metric": "loss", "value": 0.6931471805599453},
]


def record(number: int, **different: Any) -> Record:
    """A finished trial with this number in its key."""
    values: dict[str, Any] = {
        "key": f"{number:032x}", "status": "finished", "role": "final", "search": "a-search",
        "method": "simcse", "setting": "unsup", "encoder": "tiny-bert", "seed": number,
        "configuration": {
            "learning_rate": 3e-05, "batch_size": 64, "max_steps": None, "encoder": "tiny-bert",
        },
        "selected_by": "graded-dev", "dev_before": 25.0, "dev": {"graded-dev": 40.0 + number},
        "test": {"graded": 50.0}, "steps": 10, "wall_seconds": 1.5,
        "started": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "versions": {"torch": "2.9"},
        "protocol": 1,
    }  # fmt: skip
    return Record(**values | different)


def write(store: Store, numbers: Iterable[int], **different: Any) -> None:
    """Write the trials with these numbers."""
    for number in numbers:
        store.write(record(number, **different))


def keys_of(store: Store) -> list[int]:
    """The numbers of the trials that a reader sees, sorted, with repetitions."""
    return sorted(int(key, 16) for key in store.read().table["key"].to_pylist())


def parquets(store: Store) -> list[Path]:
    """The files that other readers see."""
    return sorted(store.folder.glob("[!.]*.parquet"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_what_is_written_is_read(store: Store) -> None:
    """A reader gets label fraction and subset without parsing the configuration."""
    store.write(record(1, configuration={"label_fraction": 0.01, "subset": 3}))
    [row] = store.read().records()
    assert row == record(1, configuration={"label_fraction": 0.01, "subset": 3})
    assert set(row.row()) == set(SCHEMA.names)
    assert store.get(row.key) == row
    store.write(record(2))
    frame = store.read().table.to_pandas().set_index("key").sort_index()
    assert frame["label_fraction"].fillna(-1).tolist() == [0.01, -1]
    assert frame["subset"].fillna(-1).tolist() == [3, -1]
    assert set(frame["schema_version"]) == {SCHEMA_VERSION}


def test_columns_that_an_older_file_lacks_are_null(store: Store) -> None:
    write(store, (1, 2), suite="sts")
    older = store.folder / f"{record(1).key}.parquet"
    table = pq.read_table(older).drop_columns(["schema_version", "suite", "history", "revisions"])
    pq.write_table(table.append_column("schema_version", pa.array([3], pa.int32())), older)
    for _ in range(2):
        reading = store.read()
        assert reading.unreadable == []
        assert [row.suite for row in reading.records()] == [None, "sts"]
        assert store.get(record(1).key) == record(1)
        store.compact(at_least=1)


def test_file_of_a_newer_version_is_refused_by_name(store: Store) -> None:
    write(store, (1, 2))
    newer = store.folder / f"{record(1).key}.parquet"
    table = pq.read_table(newer).drop_columns(["schema_version"])
    version = pa.array([SCHEMA_VERSION + 1], pa.int32())
    pq.write_table(table.append_column("schema_version", version), newer)
    reading = store.read()
    assert [row.seed for row in reading.records()] == [2]
    newest = f"its schema is version {SCHEMA_VERSION + 1}"
    why = f"{newest}, and this harness reads up to {SCHEMA_VERSION}; update harness"
    assert reading.unreadable == [(newer.name, why)]
    store.compact(at_least=1)
    before = newer.read_bytes()
    check_it_stays(store, 1, f"{newer.name} in {store.folder} cannot be read: {why}")
    assert newer.read_bytes() == before


def check_it_stays(store: Store, number: int, why: str) -> None:
    """A sound record that cannot be read here is no damaged one: no trial takes its place."""
    trial = record(number)
    with pytest.raises(UserError, match=re.escape(why)):
        store.finished_or_run(trial.key, "a trial", lambda: pytest.fail("it ran"))
    with pytest.raises(UserError, match=re.escape(why)):
        store.write(trial)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_record_of_another_user_stays(compacted: bool) -> None:
    """Two people share a store, and one of them writes files that only he may read."""
    with TemporaryDirectory() as shared:  # pytest's own folders are the other user's alone
        store = Store(Path(shared, "store"))
        write(store, (1, 2))
        if compacted:
            store.compact(at_least=1)
        [file, *_] = parquets(store)
        file.chmod(0)
        for folder in (Path(shared), store.folder):
            folder.chmod(0o777)
        if root := os.geteuid() == 0:
            os.seteuid(65534)
        try:
            assert (file.name, "Permission denied") in store.read().unreadable
            why = f"{file.name} in {store.folder} cannot be read: Permission denied"
            check_it_stays(store, 1, why)
        finally:
            if root:
                os.seteuid(0)
        file.chmod(0o600)
        assert keys_of(store) == [1, 2]


def test_a_revision_that_is_no_commit_is_a_fault(store: Store) -> None:
    wrong: list[dict[str, Any]] = [
        {"models/org/name": "main"}, {"models/org/name": 7}, {"models/../name": "a" * 40},
        {"name": "a" * 40}, {"models/org/name": ["a" * 40]}, {"datasets/org/name": "a" * 41},
        {"models/org/name": f"{'a' * 40}, ../x"},
    ]  # fmt: skip
    store.write(record(1, revisions={"models/org/name": "a" * 40, "datasets/a/b": "0" * 40}))
    for number, revisions in enumerate(wrong, 2):
        store.write(record(number, revisions=revisions))
    reading = store.read()
    assert [row.seed for row in reading.records()] == [1]
    why = "its revisions are no commits of models and data sets"
    faulty = [(record(number).key, why) for number in range(2, 2 + len(wrong))]
    assert sorted(reading.unreadable) == faulty


@pytest.mark.slow
def test_row_with_damaged_json_is_named_and_the_others_read(store: Store) -> None:
    columns = ("configuration", "versions", "suite_card", "revisions")
    write(store, range(5))
    store.compact(at_least=1)
    [path] = parquets(store)
    table = pq.read_table(path)
    for number, column in enumerate(columns):
        texts = table[column].to_pylist()
        texts[number] = '{"a": 1'
        index = table.column_names.index(column)
        table = table.set_column(index, column, pa.array(texts, pa.string()))
    pq.write_table(table, path)
    reading = store.read()
    assert [row.seed for row in reading.records()] == [4]
    why = [
        (record(number).key, f"its {name} is not a JSON object")
        for number, name in enumerate(columns)
    ]
    assert reading.unreadable == why
    for key, sentence in why:
        assert store.get(key) is None
        with pytest.raises(UserError, match=f"cannot be read: {sentence}"):
            store.find(key)
    write(store, range(4))
    for _ in range(2):
        assert keys_of(store) == list(range(5))
        store.compact(at_least=1)
    assert len(parquets(store)) == 1


def test_store_that_is_not_there_is_empty_and_one_that_is_no_folder_refused(
    store: Store, tmp_path: Path
) -> None:
    store.check_writable()
    assert list(tmp_path.rglob("*.*")) == []
    assert store.read().records() == []
    assert store.finished_keys() == set()
    assert store.get(record(1).key) is None
    assert store.compact(at_least=0) == 0
    assert not store.folder.exists()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        Store(tmp_path / "file" / "store").check_writable()
    for where in ("file", "file/store"):
        with pytest.raises(UserError, match="file"):
            Store(tmp_path / where).read()


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_finished_record_stays(compacted: bool, store: Store) -> None:
    reasons = [("failed", "first"), ("failed", "second"), ("partial", "third"), ("failed", "third")]
    for status, why in reasons:
        store.write(record(1, status=status, reason=why))
        assert [row.reason for row in store.read().records()] == [why]
    assert store.finished_keys() == set()
    store.write(record(1))
    if compacted:
        store.compact(at_least=1)
    for status, why in reasons:
        store.write(record(1, status=status, reason=why, dev={}))
        assert store.read().records() == [record(1)]
        assert store.get(record(1).key) == record(1)
        assert len(parquets(store)) == 1


@pytest.mark.parametrize("compacted", [False, True])
def test_second_result_of_a_trial_is_reported_and_the_first_stays(
    compacted: bool, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    first = record(1, details={"graded/figure": float("nan")})
    store.write(first)
    if compacted:
        store.compact(at_least=1)
    store.write(replace(first, wall_seconds=9.0, host="another", started=None))
    assert caplog.messages == []
    store.write(replace(first, test={"graded": 50.5}, history=HISTORY))
    [said] = caplog.messages
    assert f"trial {record(1).key} has finished twice with another test" in said
    [row] = store.read().records()
    assert (row.test, row.history, row.wall_seconds) == (record(1).test, [], 1.5)


def test_finished_record_that_comes_between_look_and_write_stays(
    store: Store, at_each_write: AtEachWrite, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process finishes the trial at the worst moment of a write."""
    others: Iterator[Record] = iter(())
    at_each_write(lambda _: [Store(store.folder).write(other) for other in others])
    for late in (record(1, status="failed", reason="odd"), record(1, test={"graded": 1.0})):
        others = iter([record(1)])
        store.write(late)
        assert store.read().records() == [record(1)]
        assert len(parquets(store)) == 1
        parquets(store)[0].unlink()
    assert "finished twice with another test" in caplog.text


def test_record_goes_before_weights_and_checkpoint_on_a_full_disk(
    store: Store, at_each_write: AtEachWrite
) -> None:
    large = [store.weights(record(1).key), store.running(record(1).key) / "checkpoint.safetensors"]
    for path in large:
        path.parent.mkdir(parents=True)
        path.touch()

    def full(_: Path) -> None:
        if any(each.exists() for each in large):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at_each_write(full)
    store.write(record(1))
    assert store.get(record(1).key) == record(1)


def test_record_that_cannot_be_written_is_one_sentence(
    store: Store, at_each_write: AtEachWrite
) -> None:
    def full(path: Path) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(code, os.strerror(code))

    at_each_write(full)
    for code in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EACCES):
        with pytest.raises(UserError) as error:
            store.write(record(1))
        advice = "make room there, and give the same command again"
        for part in (str(store.folder), os.strerror(code), advice):
            assert part in str(error.value)
        assert list(store.folder.iterdir()) == []


def test_a_folder_may_have_a_colon_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pyarrow takes such a relative path for an address; only what looks like one is refused."""
    monkeypatch.chdir(tmp_path)
    store = store_at("runs:may")
    write(store, (1, 2))
    store.compact(at_least=1)
    assert keys_of(store) == [1, 2]
    assert publish(store, Path("for:all")) == 2
    assert keys_of(Store("for:all/trials")) == [1, 2]
    for address in ("gs://bucket/runs", "s3:/bucket/runs", Path("https://host/runs")):
        with pytest.raises(UserError, match=r"write a folder, or a bucket as s3://BUCKET/FOLDER"):
            store_at(address)


def test_a_trial_is_found_by_the_first_characters_of_its_key(store: Store) -> None:
    first, second, third = (f"{key:0<32}" for key in ("aab", "aac", "b"))
    for number, key in enumerate((first, second, third)):
        store.write(record(number, key=key))
    assert sorted(row.key for row in store.matching("aa")) == [first, second]
    assert store.find("aac").key == second
    with pytest.raises(UserError, match=r'2 trials .* with "aa": aab000, aac000; give more chara'):
        store.find("aa")
    with pytest.raises(UserError, match=r'no trial in .* has a key that starts with "c"'):
        store.find("c")
    note = store.running("cab0" * 8) / "progress.json"
    note.parent.mkdir(parents=True)
    note.write_text("{}")
    with pytest.raises(UserError, match="trial cab0cab0ca has no record yet: it runs, or was stop"):
        store.find("c")


def test_a_reader_of_some_keys_opens_no_file_of_another_key(store: Store) -> None:
    """The damaged file would be named; a file of many trials is always looked into."""
    write(store, range(4))
    store.compact(at_least=1)
    write(store, (4, 5))
    wanted = [record(number).key for number in (3, 4)]
    (store.folder / f"{record(5).key}.parquet").write_bytes(b"damaged")
    assert [name for name, _ in store.read().unreadable] == [f"{record(5).key}.parquet"]
    for reading in (
        store.read(where={"key": wanted}),
        store.read(between=(wanted[0], wanted[1])),
        store.read(where={"key": wanted}, between=(wanted[0], wanted[1])),
    ):
        assert sorted(row.key for row in reading.records()) == wanted
        assert reading.unreadable == []


@pytest.mark.slow
def test_one_line_reads_it_elsewhere(store: Store) -> None:
    import duckdb
    import pandas as pd
    import polars as pl

    for number in range(3):
        store.write(record(number, history=HISTORY))
    store.compact(at_least=1)
    store.write(record(3, history=HISTORY))
    store.write(record(4, status="failed", reason="odd", dev={}))
    for beside in (store.weights(record(3).key), store.running(record(5).key) / "log.parquet"):
        beside.parent.mkdir(parents=True)
        beside.write_bytes(b"anything")
    folder, files = str(store.folder), f"{store.folder}/*.parquet"
    assert sorted(pd.read_parquet(folder)["seed"]) == [0, 1, 2, 3, 4]
    assert sorted(pl.read_parquet(files)["seed"]) == [0, 1, 2, 3, 4]
    found = duckdb.sql(f"select seed, dev['graded-dev'] from '{files}' order by seed").fetchall()
    assert found == [*((number, 40.0 + number) for number in range(4)), (4, None)]
    points = duckdb.sql(f"select unnest(history, recursive := true) from '{files}'")
    assert points.fetchall() == [tuple(point.values()) for point in HISTORY] * 4
    histories = pd.read_parquet(folder).set_index("seed")["history"]
    assert [list(map(dict, histories[number])) for number in range(5)] == [HISTORY] * 4 + [[]]
    assert sorted(len(row.history) for row in store.read().records()) == [0, *[len(HISTORY)] * 4]


def test_what_a_killed_writer_leaves_is_not_read(store: Store) -> None:
    """A whole file and half a file stay behind, under the temporary names of `write`."""
    store.write(record(1))
    content = (store.folder / f"{record(1).key}.parquet").read_bytes()
    (store.folder / f".{record(2).key}.parquet.0123.tmp").write_bytes(content[: len(content) // 2])
    (store.folder / f".{record(3).key}.parquet").write_bytes(content)
    reading = store.read()
    assert [row.seed for row in reading.records()] == [1]
    assert reading.unreadable == []
    assert store.get(record(2).key) is None


@pytest.mark.slow
def test_damaged_and_foreign_files_are_named_and_stay(store: Store) -> None:
    write(store, range(1, 8))
    paths = [store.folder / f"{record(number).key}.parquet" for number in range(1, 8)]
    contents = [b"", b"PAR1", b"not parquet at all", paths[3].read_bytes()[:-20]]
    for path, content in zip(paths, contents, strict=False):
        path.write_bytes(content)
    table = pq.read_table(paths[4])
    odd = table.set_column(table.column_names.index("seed"), "seed", pa.array(["one"]))
    pq.write_table(odd, paths[4])
    pq.write_table(pa.table({"price": [1.0]}), store.folder / "prices.parquet")
    wrong = sorted([*(path.name for path in paths[:5]), "prices.parquet"])
    for _ in range(2):
        reading = store.read()
        assert [row.seed for row in reading.records()] == [6, 7]
        assert [name for name, _ in reading.unreadable] == wrong
        assert all(reason and "\n" not in reason for _, reason in reading.unreadable)
        assert "not a trial record" in dict(reading.unreadable)["prices.parquet"]
        assert store.get(record(1).key) is None
        store.compact(at_least=1)
    assert len(parquets(store)) == len(wrong) + 1
    write(store, range(1, 6))
    assert keys_of(store) == list(range(1, 8))


@pytest.mark.parametrize("folded", [False, True])
def test_files_that_are_folded_after_a_reader_has_listed_them(
    folded: bool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing is made, and then all its files go, which is the worst moment for a reader."""
    for number in range(3):
        store.write(record(number))
        if folded:
            store.compact(at_least=1)
    listing, once = os.scandir, iter([True])

    def list_then_compact(folder: Any) -> Any:
        for _ in once:
            entries = list(listing(folder))
            store.write(record(3))
            store.compact(at_least=1)
            return iter(entries)
        return listing(folder)

    monkeypatch.setattr(os, "scandir", list_then_compact)
    if folded:
        assert store.get(record(0).key) == record(0)
    else:
        assert {0, 1, 2} <= {*keys_of(store)}


def write_many(folder: str, numbers: list[int], status: Any) -> None:
    """Write trials in a process of its own."""
    store = Store(folder)
    for number in numbers:
        store.write(record(number, status=status))
        if number % 7 == 0:
            store.compact(at_least=2)


@pytest.mark.slow
@pytest.mark.process
def test_processes_write_compact_and_read_one_store(store: Store) -> None:
    """They share trials, of which some fail in one of them; readers see each once meanwhile."""
    context = multiprocessing.get_context("spawn")
    shares = [(range(20), "finished"), (range(15, 35), "finished"), (range(35), "failed")]
    workers = [
        context.Process(target=write_many, args=(str(store.folder), list(share), status))
        for share, status in shares
    ]
    for worker in workers:
        worker.start()
    seen: set[str] = set()
    while any(worker.is_alive() for worker in workers):
        keys = store.read().table["key"].to_pylist()
        assert len(set(keys)) == len(keys)
        assert seen <= set(keys)
        seen = set(keys)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    reading = store.read()
    assert [row.status for row in reading.records()] == ["finished"] * 35
    assert reading.unreadable == []
    assert not list(store.folder.glob("*.tmp"))
