"""Claims: one process at a time works on a trial; the claim of one that is gone is taken over."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness import claims
from harness.claims import Claim, claimed, owner_of
from harness.errors import Postponed
from harness.locks import locked, postponing
from harness.owners import Owner

HOLDER = """\
import sys, time
from pathlib import Path
from harness import claims
from harness.claims import Claim
claims.BEAT_SECONDS = 0.05
assert Claim(Path(sys.argv[1])).take() is None
print("taken", flush=True)
time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "running" / "key" / "claim"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything happens within a second."""
    monkeypatch.setattr(claims, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(claims, "GONE_SECONDS", 0.5)
    monkeypatch.setattr(claims, "POLL_SECONDS", 0.02)


def of_another_machine(path: Path) -> None:
    """Let the claim be one of a machine whose processes nobody here can see."""
    first, line, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(first), "place": "elsewhere"}).encode() + line + rest)


def wait_until_free(path: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not (free := owner_of(path) is None) and time.monotonic() < until:
        time.sleep(0.02)
    return free


def test_one_owner_at_a_time(path: Path) -> None:
    first, second = Claim(path), Claim(path)
    assert first.take() is None
    owner = second.take()
    assert str(owner).startswith("process ")
    first.release()
    assert second.take() is None
    second.release()
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_many_threads_work_one_after_the_other(path: Path) -> None:
    inside, most, done = 0, 0, []

    def work(number: int) -> None:
        nonlocal inside, most
        with claimed(path, "a trial"):
            inside += 1
            most = max(most, inside)
            time.sleep(0.005)
            inside -= 1
        done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, sorted(done)) == (1, list(range(8)))
    with pytest.raises(ValueError, match="planted"), claimed(path, "a trial"):
        raise ValueError("planted")
    assert owner_of(path) is None


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_living_owner_of_another_machine_keeps_its_claim(path: Path) -> None:
    claim = Claim(path)
    claim.take()
    claim.owner = replace(claim.owner, place="elsewhere")
    of_another_machine(path)
    assert not wait_until_free(path, 1.5)
    claim.release()
    assert owner_of(path) is None


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_an_owner_of_another_machine_without_a_sign_of_life_is_gone(path: Path) -> None:
    claim = Claim(path)
    claim.take()
    of_another_machine(path)  # its own process now sees a claim that is not its own, and stops
    assert owner_of(path) is not None
    assert wait_until_free(path, 30)
    new = Claim(path)
    assert new.take() is None
    claim.release()  # late: the claim is another's by now
    assert path.exists()
    new.release()


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_claim_without_content_is_somebodys_for_a_while(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch()
    assert str(owner_of(path)) == "process 0 on an unknown host"
    assert wait_until_free(path, 30)


def test_a_claim_that_is_new_is_put_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner has ended; between the look at its claim and the removal another one takes it."""
    ended, claim, rename = Owner(), Claim(path), Path.rename
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**asdict(ended), "process": 2**22 + 1, "token": "older"}) + "\n")

    def late(self: Path, target: Path) -> Path:
        path.unlink()
        assert claim.take() is None
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", late)
        assert owner_of(path) is None
    owner = owner_of(path)
    assert owner is not None
    assert owner.process == os.getpid()
    assert [each.name for each in path.parent.iterdir()] == ["claim"]
    claim.release()
    assert not path.exists()


def test_a_worker_postpones_and_does_not_wait(path: Path, tmp_path: Path) -> None:
    claim = Claim(path)
    claim.take()
    running = pytest.raises(Postponed, match=r"^process \d+ on .* works on a trial$")
    with postponing(), running, claimed(path, "a trial"):
        pass
    claim.release()
    lock = tmp_path / "locks" / "tokens.lock"
    making = pytest.raises(Postponed, match=r"^another process makes tokens/1$")
    with locked(lock, "tokens/1"), postponing(), making, locked(lock, "tokens/1"):
        pass


@pytest.fixture
def process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the claim."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "taken\n"
    yield holder
    holder.kill()
    holder.wait()


@pytest.mark.process
def test_the_claim_of_a_killed_process_is_free_at_once(
    path: Path, process: subprocess.Popen[str]
) -> None:
    assert str(owner_of(path)).startswith(f"process {process.pid} on ")
    process.kill()
    process.wait()
    assert owner_of(path) is None
    assert not path.exists()


@pytest.mark.process
@pytest.mark.usefixtures("quick")
def test_a_process_that_stands_still_loses_its_claim(
    path: Path, process: subprocess.Popen[str]
) -> None:
    process.send_signal(signal.SIGSTOP)
    assert wait_until_free(path, 30)
    new = Claim(path)
    assert new.take() is None
    process.send_signal(signal.SIGCONT)
    time.sleep(0.5)  # it wakes up, and sees that the claim is another's
    owner = new.take()
    assert owner is not None
    assert owner.process == os.getpid()
    new.release()
