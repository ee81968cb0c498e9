"""A store in a bucket: what one machine writes another one reads, whatever fails on the way."""

import http.client
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from harness.errors import UserError
from harness.files import content_digest
from harness.owners import Owner
from harness.remote import RemoteFolder
from harness.trials import remote_claims
from harness.trials.merging import merge
from harness.trials.output import BoundedLog
from harness.trials.remote_claims import NOTES, RemoteClaim, owner_in, send_note
from harness.trials.remote_store import RemoteStore
from harness.trials.running import noted, running_trials
from harness.trials.store import Store
from tests.remote.buckets import Proxy, straight
from tests.sweeping import wait_for
from tests.trials.test_store import record

pytestmark = [pytest.mark.slow, pytest.mark.process]
Machine = Callable[[str], RemoteStore]
Answer = TypeVar("Answer")
LARGE = 12 * 2**20
"""Bytes of weights that are sent in two parts"""


def numbers(store: RemoteStore) -> list[int]:
    """The numbers of the finished trials that a machine sees."""
    return sorted(int(key, 16) for key in store.finished_keys())


def write(store: Store, numbers: Iterable[int], status: Any = "finished", reason: str = "") -> None:
    """Write the trials with these numbers."""
    for number in numbers:
        store.write(record(number, status=status, reason=reason or None))


def write_weights(store: RemoteStore, number: int) -> Path:
    """Put large weights of a trial into the folder of a machine; their file."""
    weights = store.weights(record(number).key)
    weights.parent.mkdir(parents=True)
    weights.write_bytes(os.urandom(LARGE))
    return weights


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life are sent and looked for ten times in a second."""
    monkeypatch.setattr(remote_claims, "REMOTE_BEAT_SECONDS", 0.1)


def test_machines_share_records_weights_and_logs(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    a.check_writable()
    weights = write_weights(a, 1)
    pairs = a.kept_pairs(record(1).key, "graded")
    pairs.write_bytes(b"cosines of the test pairs")
    a.write(record(1))
    assert a.folder != b.folder
    assert b.kept_pairs(record(1).key, "graded").read_bytes() == pairs.read_bytes()
    assert not b.kept_pairs(record(2).key, "graded").exists()
    assert b.get(record(1).key) == a.get(record(1).key)
    assert b.kept_weights(record(1).key).read_bytes() == weights.read_bytes()
    assert not b.kept_weights(record(2).key).exists()
    key = record(1).key
    for store, words in ((a, b"of the first\n"), (b, b"of the second\n")):
        with store.logging(key) as path:
            log = BoundedLog(path)
            log.add(words)
            log.close()
    assert a.logged() == b.logged() == {key}
    found = a.kept_log(key).read_bytes()
    assert found.count(b"== an attempt on ") == 2
    assert found.index(b"of the first") < found.index(b"of the second")


def test_buckets_are_merged(machine: Machine, tmp_path: Path) -> None:
    """And somebody may copy a local store into the bucket by another tool, without its keys."""
    a, b = machine("a"), machine("b")
    local, weights = Store(tmp_path / "local"), tmp_path / "weights"
    weights.write_bytes(b"some weights")
    local.write(replace(record(1), weights_digest=content_digest(weights)))
    for kept in ("safetensors", "graded.parquet"):
        local.keep(f"{record(1).key}.{kept}", weights)
    local.write(record(2, status="failed", reason="a reason"))
    a.write(record(3))
    merged = merge([local], a)
    assert (merged.new, merged.known) == (2, 0)
    assert numbers(b) == [1, 3]
    assert b.get(record(2).key).reason == "a reason"
    for path in (b.kept_weights(record(1).key), b.kept_pairs(record(1).key, "graded")):
        assert path.read_bytes() == b"some weights"
    assert merge([b], local).new == 1
    assert local.finished_keys() == a.finished_keys()
    other = Store(tmp_path / "other")
    write(other, range(11, 14))
    other.compact(2)
    [path] = other.folder.glob("compact-*")
    a.remote.upload(path, path.name)
    assert machine("c").get(record(11).key) == record(11)
    assert machine("c").get(record(15).key) is None


def test_what_has_not_finished_is_replaced(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    a.write(record(1, status="failed", reason="the first reason"))
    assert b.get(record(1).key).reason == "the first reason"
    os.utime(b.folder / f"{record(1).key}-unfinished.parquet", (0, 0))  # clocks tick in seconds
    b.write(record(1, status="failed", reason="the second reason"))
    (read,) = a.read(("reason",)).table["reason"].to_pylist()
    assert read in ("the first reason", "the second reason")
    b.write(record(1))
    assert numbers(a) == [1]
    assert not any("unfinished" in name for name in a.remote.names())


def test_a_compaction_holds_for_all_machines(machine: Machine, server: int) -> None:
    a, b = machine("a"), machine("b")
    write(a, (1, 3))
    write(b, (0, 2))
    assert numbers(b) == [0, 1, 2, 3]
    assert numbers(a) == [0, 1, 2, 3]
    assert a.compact(2) == 4
    (name,) = a.remote.names()
    b.write(record(4))
    assert numbers(b) == [0, 1, 2, 3, 4]
    assert set(b.copy.records) == {name, f"{record(4).key}.parquet"}
    a.write(record(5))
    straight(server).delete_file(f"{a.remote.path}/{record(5).key}.parquet")
    assert numbers(a) == [0, 1, 2, 3, 4], "what is removed from the bucket is gone"


def test_a_compaction_that_is_disturbed_loses_nothing(
    machine: Machine, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket is lost halfway; then another process receives, and would drop the new file."""
    driver, worker = machine("a"), machine("a")
    write(driver, range(4))
    proxy.pattern, proxy.always = b"compact-", "drop"
    driver.compact(2)
    proxy.always = None
    assert numbers(machine("b")) == [0, 1, 2, 3]
    driver, worker = machine("a"), machine("a")
    assert numbers(driver) == [0, 1, 2, 3]

    receiving = threading.Thread(target=worker.receive)
    unlink = Path.unlink

    def slowly(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".parquet" and receiving.ident is None:
            assert list(path.parent.glob("compact-*"))
            receiving.start()  # the new file is here, and so are the old ones
            receiving.join(2)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", slowly)
    assert driver.compact(2) == 4
    receiving.join()
    assert numbers(worker) == [0, 1, 2, 3]
    assert numbers(machine("b")) == [0, 1, 2, 3]


def test_a_key_is_looked_up_without_the_other_records(machine: Machine, proxy: Proxy) -> None:
    """A worker fetches none of what others have done, however much it is, folded or not."""
    driver = machine("a")
    requests = []
    for first in (0, 20):
        write(driver, range(first, first + 20, 2))
        write(driver, range(first + 1, first + 20, 2), "pruned")
        for name in ("before", "after"):
            worker = machine(f"{name} {first}")
            proxy.requests.clear()
            assert worker.get(record(99).key) is None
            assert worker.get(record(98).key) is None
            requests.append(len(proxy.requests))
            assert not worker.copy.records
            if name == "before":
                assert driver.compact(2) == 20
    # Two look-ups are two listings, and the keys of the one compacted file, once.
    assert requests == [2, 3, 3, 3]
    assert driver.compact(2) == 0
    for number in (7, 30):
        found = machine(f"worker {number}").get(record(number).key)
        assert found == driver.get(record(number).key) is not None


def test_an_attempt_during_a_compaction_of_another_machine_stays(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = machine("a"), machine("b")
    write(a, range(3), "failed", "first")
    beside = iter(["an attempt"])
    unlink = Path.unlink

    def late(path: Path, missing_ok: bool = False) -> None:
        if path.parent == a.folder and next(beside, None):
            time.sleep(1.1)  # the server's clock ticks in seconds
            b.write(record(1, status="failed", reason="second"))
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", late)  # the folded file is there, and is not sent yet
        assert a.compact(2) == 3
    assert next(beside, None) is None
    for _ in range(2):
        for name in "abc":
            reasons = {row.seed: row.reason for row in machine(name).read().records()}
            assert reasons == {0: "first", 1: "second", 2: "first"}
        b.compact(1)


def test_names_in_a_bucket_lead_nowhere(
    machine: Machine, bucket: str, server: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger who may write into the bucket names no file outside of the copy."""
    key = record(1).key
    machine("a").write(record(1))
    content = (machine("a").folder / f"{key}.parquet").read_bytes()
    claim = json.dumps({"host": "../x", "process": "\x1b[2J"}).encode()
    junk = {claim: record(3).key, b"[" * 100_000: record(4).key, b"5": record(5).key}
    for name, data in {
        "trials/": b"",
        "trials/.x.parquet": content,
        "trials/..parquet": content,
        "trials/a%20b.parquet": content,
        f"trials/{'x' * 230}.parquet": content,
        "trials-logs/..txt": b"a log",
        "trials-logs/x.txt": b"",
        "trials/.beats/x": b"[" * 100_000,
        "trials/.beats/y": b'{"progress": {"x": 5}}',
        "trials/.beats/z": b'{"progress": 5}',
        **{f"trials/.running/{each}": data for data, each in junk.items()},
    }.items():
        put_as_it_is(server, f"{bucket}/results/{name}", data)
    b = machine("b")
    assert numbers(b) == [1]
    assert b.logged() == set()
    assert b.progress_elsewhere() == []
    for junk_name in junk.values():
        assert b.owner(junk_name) is None
        with b.claimed(junk_name, "a trial"):
            assert b.owner(junk_name) is not None
    outside = {path.name for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert outside <= {f"{key}.parquet", ".copy.lock"}
    assert "is left out: harness has no such name" in caplog.text


@pytest.mark.parametrize("name", ["..", "../x.parquet", "/x.parquet", "./x.parquet"])
def test_a_name_that_is_no_path_is_refused(
    name: str, machine: Machine, bucket: str, server: int
) -> None:
    put_as_it_is(server, f"{bucket}/results/trials/{name}", b"content")
    with pytest.raises(UserError, match="remove the object whose name is no path: "):
        machine("a").check_writable()


def put_as_it_is(server: int, path: str, data: bytes) -> None:
    """Write an object; a client of S3 would send some names in another form."""
    sent = http.client.HTTPConnection("127.0.0.1", server)
    sent.request("PUT", f"/{path}", data)
    assert (path, sent.getresponse().status) == (path, 200)


@pytest.mark.parametrize("fault", ["drop", "busy", "half"])
def test_a_request_that_fails_once_is_repeated(machine: Machine, proxy: Proxy, fault: str) -> None:
    """And a record that arrives damaged is fetched again."""
    a, b = machine("a"), machine("b")
    for number in range(2):
        proxy.faults.extend(["pass", fault] * 2)
        a.write(record(number))
    proxy.faults.extend([fault, "pass"] * 2)
    assert not a.copy.waiting
    assert numbers(b) == [0, 1]
    proxy.faults.clear()
    proxy.pattern = b"GET /" + f"{a.remote.path}/{record(1).key}".encode()
    proxy.faults.append("flip")
    reading = machine("c").read()
    assert not proxy.faults
    assert not reading.unreadable
    assert reading.table.num_rows == 2


def test_an_upload_that_breaks_off_leaves_nothing_and_is_made_up_for(
    machine: Machine, proxy: Proxy, server: int, caplog: pytest.LogCaptureFixture
) -> None:
    a = machine("a")
    weights = write_weights(a, 1)
    proxy.pattern, proxy.always = b"partNumber=2", "drop"
    with caplog.at_level(logging.WARNING):
        a.write(record(1))
    (said,) = [entry.getMessage() for entry in caplog.records]
    assert "does not answer" in said
    assert "is sent later" in said
    proxy.always = None
    later = machine("a")  # another process of the machine
    assert not later.copy.remote_weights.names()
    assert not later.remote.names()
    later.check_writable()
    assert numbers(machine("b")) == [1]
    sent = straight(server).open_input_file(f"{a.copy.remote_weights.path}/{weights.name}")
    assert sent.read() == weights.read_bytes()


def test_without_the_bucket_a_machine_goes_on_alone(
    machine: Machine, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = machine("a"), machine("b")
    a.write(record(1))
    proxy.always = "drop"
    with caplog.at_level(logging.WARNING):
        found = a.finished_or_run(record(2).key, "a trial", lambda: record(2))
    assert found.finished
    assert len(caplog.records) == 1
    assert numbers(a) == [1, 2]
    assert a.unsent() == 1
    proxy.always = None
    assert numbers(b) == [1]
    assert machine("a").unsent() == 0  # another process of the machine
    assert numbers(b) == [1, 2]


def claim_of(remote: RemoteFolder, number: int, machine: str, running: Path) -> RemoteClaim:
    """The claim of a trial by the only process of a machine that is not this one."""
    claim = RemoteClaim(remote, record(number).key, running)
    claim.owner = Owner(place=machine)
    return claim


def all_at_once(calls: list[Callable[[], Answer]]) -> list[Answer]:
    """Answers of the calls, each in a thread of its own."""
    start = threading.Barrier(len(calls))

    def begin(call: Callable[[], Answer]) -> Answer:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(begin, calls))


def test_of_fifty_that_claim_at_once_each_trial_has_one(machine: Machine, tmp_path: Path) -> None:
    remote, numbers = machine("a").remote, range(6)

    def taken(name: str) -> list[RemoteClaim]:
        claims = [claim_of(remote, number, name, tmp_path) for number in numbers]
        random.Random(name).shuffle(claims)
        return [claim for claim in claims if claim.take() is None]

    found = all_at_once([partial(taken, f"machine {number}") for number in range(50)])
    claims = [claim for each in found for claim in each]
    assert sorted(claim.key for claim in claims) == [record(number).key for number in numbers]
    for claim in claims:
        assert owner_in(remote, claim.key) == claim.owner
        claim.release()
        assert owner_in(remote, claim.key) is None
    assert claim_of(remote, 0, "another machine", tmp_path).take() is None


@pytest.mark.parametrize("fault", ["drop", "busy", "half"])
def test_a_claim_whose_answer_is_lost_is_taken(
    machine: Machine, proxy: Proxy, tmp_path: Path, fault: str
) -> None:
    remote = machine("a").remote
    proxy.pattern = b"PUT "
    proxy.faults.append(fault)
    claim = claim_of(remote, 1, "a machine", tmp_path)
    assert claim.take() is None
    assert claim_of(remote, 1, "another machine", tmp_path).take() == claim.owner


@pytest.mark.parametrize("header", [b"if-none-match", b"if-match"])
def test_a_server_without_conditional_writes_is_refused(
    machine: Machine, proxy: Proxy, header: bytes
) -> None:
    a = machine("a")
    a.write(record(1))
    proxy.forgets = header
    with pytest.raises(UserError, match="its server does not know conditional writes"):
        a.check_writable()
    assert numbers(machine("b")) == [1]
    proxy.forgets = b""
    a.check_writable()


@pytest.mark.usefixtures("often")
def test_a_trial_that_another_machine_runs_waits(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    key, note = record(1).key, b.running(record(1).key) / "prune"
    with a.claimed(key, "a trial"):
        with noted("a label", lambda _: None, a.running(key)):
            assert "process" in str(b.owner(key))
            wait_for(lambda: running_trials(b))
            assert [trial.label for trial in running_trials(b)] == ["a label"]
        b.leave_note(note)
        wait_for((a.running(key) / "prune").exists)
        assert (a.running(key) / "prune").exists()
    assert b.owner(key) is None
    assert not left_in(a.remote)


@pytest.mark.usefixtures("often")
def test_notes_reach_all_machines_and_one_attempt(machine: Machine) -> None:
    a, b = machine("a"), machine("b")
    note = [store.running_folder / "stop-a-sweep" for store in (a, b)]
    assert not b.has_note(note[1])
    a.leave_note(note[0])
    assert b.has_note(note[1])
    a.remove_note(note[0])
    assert not b.has_note(note[1])
    # That for an attempt is not for the next one.
    key = record(1).key
    with a.claimed(key, "a trial"):
        first = owner_in(b.remote, key)
    b.remote.put(f"{NOTES}/{first.token}.prune", b"")  # it comes after the end
    b.leave_note(b.running(key) / "prune")
    with a.claimed(key, "a trial"):
        time.sleep(0.5)
        assert not (a.running(key) / "prune").exists()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock by which the living and the gone are told apart; a test sets its `now`."""
    fake = SimpleNamespace(now=0.0)
    fake.monotonic = lambda: fake.now
    monkeypatch.setattr(remote_claims, "time", fake)
    return fake


@pytest.mark.usefixtures("often")
def test_one_sign_of_life_keeps_all_trials_of_a_process(
    machine: Machine, proxy: Proxy, clock: SimpleNamespace, tmp_path: Path
) -> None:
    remote = machine("a").remote
    claims = [claim_of(remote, number, "one machine", tmp_path) for number in range(30)]
    for claim in claims:
        assert claim.take() is None
    for _ in range(4):
        more = len(beats(proxy)) + 2
        wait_for(lambda more=more: len(beats(proxy)) >= more)
        for claim in claims[::10]:
            assert claim_of(remote, int(claim.key, 16), "b", tmp_path).take() == claim.owner
        clock.now += 59
    assert len(set(beats(proxy))) == 1
    for claim in claims:
        claim.release()
    assert not left_in(remote)


def beats(proxy: Proxy) -> list[bytes]:
    """The names of the signs of life that were written."""
    puts = [each.split()[1] for each in proxy.requests if each.startswith(b"PUT ")]
    return [name for name in puts if b"/.beats/" in name]


def test_of_many_that_take_over_one_has_the_claim(
    machine: Machine, clock: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_claims, "REMOTE_BEAT_SECONDS", 3600.0)
    remote = machine("a").remote
    for number in range(5):
        gone = claim_of(remote, number, "a lost machine", tmp_path)
        assert gone.take() is None
        send_note(remote, gone.key, "prune")
        takers = [claim_of(remote, number, f"machine {each}", tmp_path) for each in range(20)]
        assert takers[0].take() == gone.owner
        clock.now += 59
        assert takers[1].take() == gone.owner
        clock.now += 2
        owners = all_at_once([taker.take for taker in takers])
        [ours] = [taker for taker, owner in zip(takers, owners, strict=True) if owner is None]
        assert set(owners) == {None, ours.owner}
        gone.release()  # it was not gone, only slow
        assert owner_in(remote, ours.key) == ours.owner
        ours.release()
    assert not left_in(remote)

    # That of an ended process of this machine is taken at once.
    ended = RemoteClaim(remote, record(1).key, tmp_path)
    ended.owner = Owner(began="long ago")
    assert ended.take() is None
    assert owner_in(remote, ended.key) is None
    ours = RemoteClaim(remote, record(1).key, tmp_path)
    assert ours.take() is None
    assert owner_in(remote, ended.key) == ours.owner


def left_in(remote: RemoteFolder) -> list[str]:
    """Claims, signs of life and notes that are left."""
    return [name for folder in (".running", ".beats", ".notes") for name in remote.names(folder)]
