"""Starting, joining and losing Ray: each has its sentence, and nothing of it is left behind."""

import json
import logging
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import SweepStopped, UserError
from harness.owners import OWNER, Owner
from harness.sweeps.cluster import capacity
from harness.sweeps.cluster import lifetime as folders
from harness.sweeps.cluster import ray_session as sessions
from harness.sweeps.cluster.capacity import check_same, digests_of, digests_of_code
from harness.sweeps.cluster.tune_run import death
from harness.trials.store import Store
from harness.trials.trial import Trial
from tests.clusters import cluster
from tests.programs import forking_python
from tests.sweeping import marked_processes, wait_for, write_space

METHODS = "  slowly: {grid: {learning_rate: [0.01, 0.02, 0.03, 0.04]}}"
TRIALS = 5
LOST = "Error: Ray has stopped answering, so the sweep ends here;"
Environment = dict[str, str]


# A sweep that loses its cluster, and then ends


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files with a short path, as the sockets of Ray need it."""
    folder = Path("/tmp") / f"hf-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def environment(temporary: Path) -> Environment:
    """The environment of all processes: temporary files in a folder of this test, and a mark."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    return inherited | {"TMPDIR": str(temporary), "HARNESS_TEST_MARK": uuid.uuid4().hex}


@pytest.fixture
def targets(tmp_path: Path, write_plugin: Callable[..., Path]) -> list[Path]:
    """A plugin whose trials take a second, and its search space."""
    plugin = write_plugin(tmp_path / "slowly.py", "trained", pause=0.2)
    return [plugin, write_space(tmp_path, METHODS, max_steps=5)]


def finished(store: Path) -> dict[str, int]:
    """File name -> the time at which it was written."""
    return {path.name: path.stat().st_mtime_ns for path in store.glob("*.parquet")}


# More than 20 s: a cluster starts and loses its head under a sweep, which then goes on.
@pytest.mark.slow
@pytest.mark.process
def test_a_lost_head_loses_nothing(
    targets: list[Path], environment: Environment, serially: Any, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex * 2}
    words = [*targets, "--store", store]
    with cluster(environment | token, "--num-cpus=1") as address:
        [process] = marked_processes(environment["HARNESS_TEST_MARK"], "gcs_server")
        driver = subprocess.Popen(
            [forking_python(), "-m", "tests.faults.hasty", "sweep", "--no-local", *words,
             "--cpus-per-trial", "1"],
            env=environment | token | {"RAY_ADDRESS": address}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        wait_for(lambda: finished(store) or driver.poll() is not None, 600)
        assert finished(store), driver.communicate(timeout=60)
        os.kill(process, signal.SIGKILL)
        out, err = driver.communicate(timeout=600)
    assert driver.returncode == 1, out + err
    assert err.startswith(LOST)
    assert err.count("\n") == 1
    before = finished(store)
    assert 0 < len(before) < TRIALS
    ended = {(row.status, row.reason) for row in Store(store).read().records()}
    assert ended == {("finished", None)}

    answer = serially(*words)
    assert answer.code == 0, answer.out + answer.err
    assert {name: finished(store)[name] for name in before} == before
    rows = Store(store).read().records()
    assert [row.status for row in rows] == ["finished"] * TRIALS


@pytest.fixture
def in_short(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Path:
    """The folder for temporary files of this process."""
    monkeypatch.setattr(folders.tempfile, "tempdir", str(temporary))
    return temporary


Begin = Callable[..., str]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, in_short: Path) -> Begin:
    """begin(RAY_ADDRESS, init=..., say=...): the page of the dashboard in a session that ends.

    `init`: stands in the place of ray.init. `within`: what happens in the session. `seconds`:
    further ones than WAIT_SECONDS.
    """
    assert in_short.exists()  # in which Ray's files would be

    def session(
        address: str,
        init: Callable[..., object] = sessions.ray.init,
        say: Callable[[str], None] = print,
        head: str = "127.0.0.1:1",
        within: Callable[[], None] = lambda: None,
        **seconds: float,
    ) -> str:
        joined = SimpleNamespace(gcs_address=head, get_node_id=str)
        monkeypatch.setenv("RAY_ADDRESS", address)
        of_ray = {"init": init, "get_runtime_context": lambda: joined, "nodes": list}
        for module, values in ((sessions.ray, of_ray), (sessions, {"WAIT_SECONDS": 0.0} | seconds)):
            for name, value in values.items():
                monkeypatch.setattr(module, name, value)
        with sessions.ray_session(say, dashboard=True) as (_, page):
            within()
            return page

    return session


def started(page: str = "", **_: object) -> SimpleNamespace:
    """Answer of ray.init."""
    return SimpleNamespace(dashboard_url=page)


@pytest.fixture
def listener() -> Iterator[tuple[socket.socket, str]]:
    """A socket that answers nothing, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, f"127.0.0.1:{server.getsockname()[1]}"


def raising(error: Exception) -> Callable[..., None]:
    """A function that raises this whatever it is given."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def forever(*_: object, **__: object) -> None:
    """Do as Ray does: try again after every exception, so that what ends it may not be one."""
    while True:
        with suppress(Exception):
            time.sleep(100)


NONE_RUNS = ConnectionError("Could not find any running Ray instance.\nPlease specify one")


@pytest.mark.process
@pytest.mark.parametrize(
    ("address", "error", "sentence"),
    [
        ("garbage", None, "RAY_ADDRESS is garbage: write HOST:PORT, or auto for"),
        ("127.0.0.1:1", None, "RAY_ADDRESS is 127.0.0.1:1, and nothing answers there; `ray start"),
        ("ray://127.0.0.1:1", None, "RAY_ADDRESS is ray://127.0.0.1:1, and a sweep does not run"),
        ("no.such.host.invalid:6379", None,
         "RAY_ADDRESS is no.such.host.invalid:6379, and nothing"),
        ("auto", NONE_RUNS, "no Ray cluster could be joined: RAY_ADDRESS is auto (Could not find "
         "any running Ray instance. Please specify one)"),
        ("LISTENER", Exception("Version mismatch: started with Ray 2.1"),
         "no Ray cluster could be joined: RAY_ADDRESS is LISTENER (Version mismatch: started"),
    ],
)  # fmt: skip
def test_a_cluster_that_cannot_be_joined_is_one_sentence(
    begin: Begin, listener: tuple[object, str], address: str, error: Exception, sentence: str
) -> None:
    with pytest.raises(UserError) as refused:
        begin(address.replace("LISTENER", listener[1]), raising(error))
    assert str(refused.value).startswith(sentence.replace("LISTENER", listener[1]))


@pytest.mark.process
def test_a_cluster_that_begins_later_is_waited_for(begin: Begin) -> None:
    """The user hears of it, and the sweep joins what listens there then."""
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{head.getsockname()[1]}"
        sentences: list[str] = []

        def hear(sentence: str) -> None:
            sentences.append(sentence)
            head.listen()

        seconds = {"WAIT_SECONDS": 60.0, "LOOK_SECONDS": 0.2}
        with pytest.raises(UserError, match=f"could be joined: RAY_ADDRESS is {address} .*no Ray"):
            begin(address, raising(ConnectionError("it is no Ray")), hear, **seconds)
    assert sentences == [f"Waiting for {address}, which does not answer yet (at most 120 s)"]


ERRORS = (
    Exception("The current node timed out during startup.\nTraceback (most recent call last)"),
    OSError(28, "No space left on device"), TimeoutError("GCS did not answer"), AssertionError(),
)  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("error", ERRORS)
def test_ray_that_does_not_come_up_is_tried_again(begin: Begin, error: Exception) -> None:
    """Whatever Ray raises: the second try has its own folder, and after it comes a sentence."""
    tried: list[object] = []

    def start(*_: object, _temp_dir: str, **__: object) -> SimpleNamespace:
        tried.append(_temp_dir)
        if len(tried) != 2:
            raise error
        return started("127.0.0.1:8265")

    assert begin("", start) == "127.0.0.1:8265"
    assert len(set(tried)) == 2
    with pytest.raises(SweepStopped, match="did not start, also at a second try") as stopped:
        begin("", start)
    assert "Traceback" not in str(stopped.value)
    assert "\n" not in str(stopped.value)
    assert len(set(tried)) == 4


@pytest.mark.process
def test_ctrl_c_while_ray_starts_its_processes_is_heard(begin: Begin) -> None:
    """An exception is lost in the moment of a fork, and Ray forks for each of its processes."""
    forks: list[object] = []

    def forked() -> None:
        if forks:
            forks.pop()
            signal.raise_signal(signal.SIGINT)

    def init(*_: object, **__: object) -> SimpleNamespace:
        forks.append(init)
        if not (process := os.fork()):
            os._exit(0)
        os.waitpid(process, 0)
        return started()

    os.register_at_fork(after_in_parent=forked)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            begin("", init)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not forks


@pytest.mark.process
@pytest.mark.parametrize("lost", [False, True])
def test_what_fails_in_ray_later_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: Any, begin: Begin, listener: Any, lost: bool
) -> None:
    """The core of a lost one lives on in the process, and writes to stderr when it ends."""
    monkeypatch.setattr(sessions.ray, "is_initialized", lambda: lost)
    monkeypatch.setattr(logging.getLogger("ray"), "handlers", [])
    monkeypatch.setattr(sys, "stderr", sys.stderr)

    def fail() -> None:
        if lost:
            listener[0].close()
        raise sessions.ray.exceptions.RaySystemError("lost")

    terminal = os.dup(2)
    sentence = "has stopped" if lost else "Ray has failed, so the sweep ends here;"
    try:
        with pytest.raises(SweepStopped, match=sentence):
            begin("", lambda *_, **__: started(), head=listener[1], within=fail)
        print("the sentence of the sweep", file=sys.stderr)
        os.write(2, b"Failed to connect to GCS" if lost else b"")
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
    assert capfd.readouterr().err == "the sentence of the sweep\n"


@pytest.mark.process
def test_a_start_that_does_not_end_is_one_sentence(begin: Begin, tmp_path: Path) -> None:
    """It is slow, or its head has ended, which is a zombie then, because nobody waits for it."""
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / "gcs_server")
    earlier = subprocess.Popen([program, "0"])  # a head that was lost, for which nobody waits
    heads: list[subprocess.Popen[bytes]] = []

    def start(*_: object, **__: object) -> None:
        heads.append(subprocess.Popen([program, "100"]))
        time.sleep(0.3)  # longer than LOST_SECONDS, so that the living head was seen
        os.kill(heads[0].pid, signal.SIGKILL)
        forever()

    begins = {"START_SECONDS": sessions.START_SECONDS, "LOOK_SECONDS": 0.01, "LOST_SECONDS": 0.1}
    with pytest.raises(SweepStopped, match="Ray did not start in"):
        begin("", forever, START_SECONDS=0.3)
    with pytest.raises(SweepStopped, match=r"or its head was lost on the way$"):
        begin("", start, **begins)
    assert [head.wait() for head in heads] == [-signal.SIGKILL]
    earlier.wait()


@pytest.mark.process
@pytest.mark.parametrize("goes", [False, True])
def test_what_listens_and_never_answers_is_one_sentence(
    begin: Begin, listener: Any, goes: bool
) -> None:
    """Ray waits, whether the listener stays, or goes while the cluster is joined."""
    server, address = listener

    def join(*_: object, **__: object) -> None:
        if goes:
            server.close()
        forever()

    join_seconds = 100 if goes else 0.3
    with pytest.raises(UserError) as refused:
        begin(address, join, LOOK_SECONDS=0.01, LOST_SECONDS=0.1, JOIN_SECONDS=join_seconds)
    assert str(refused.value) == (
        f"no Ray cluster could be joined: RAY_ADDRESS is {address}, and what listens there does "
        f"not answer as Ray does"
    )


def test_reason_of_a_dead_worker_is_one_sentence(tmp_path: Path) -> None:
    for text, why in (
        ("1 worker(s) were killed due to the node running low on memory.", "ran out of memory"),
        ("The actor died because its node has died. Node Id: 7", "its machine was lost"),
        ("Worker exit detail: ... killed by the OOM killer due to high memory usage", "something"),
    ):
        (tmp_path / "error.txt").write_text(f"Failure # 1\n{text}\n\tclass_name: A\n")
        assert why in death(str(tmp_path / "error.txt"))
        assert "\n" not in death(str(tmp_path / "error.txt"))
    assert "ended itself" in death(None)


def test_folder_is_private_and_goes_at_the_end(
    in_short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folders.session_folder() as folder:
        assert folder.parent == in_short
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        owner = Owner(**json.loads((folder / OWNER).read_text()))
        assert owner.process == os.getpid()
        assert not owner.has_ended
        with folders.session_folder() as other:  # of a sweep that runs at the same time
            assert folder.exists()
    assert not folder.exists()
    assert not other.exists()
    with pytest.raises(SweepStopped), folders.session_folder() as lost:
        raise SweepStopped("Ray is gone")
    assert lost.exists(), "it waits for the next sweep"
    # The path of a socket has at most 107 bytes.
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path / ("x" * 60)))
    with folders.session_folder() as folder:
        assert folder.parent == Path("/tmp")


def test_folders_of_killed_sweeps_are_removed_alone(in_short: Path) -> None:
    owners = {
        "killed": Owner(process=2**22 + 1, began="1"),
        "elsewhere": Owner(process=2**22 + 1, began="1", host="other", place="other"),
        "running": Owner(),
        "unknown": None,
    }
    for name, owner in owners.items():
        folder = in_short / f"{folders.PREFIX}{name}"
        (folder / "r").mkdir(parents=True)
        if owner:
            (folder / OWNER).write_text(json.dumps(asdict(owner)))
    with folders.session_folder():
        pass
    left = {path.name.removeprefix(folders.PREFIX) for path in in_short.iterdir()}
    assert left == {"elsewhere", "running", "unknown"}


def test_other_machine_is_refused_by_name(
    targets: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, values = "node-3 (10.0.0.3)", {"encoder": "tiny-bert", "suite": "graded"}
    trial = Trial(str(targets[0]), values | {"sentences": "graded-sentences"}, seed=0)
    here = digests_of_code() | digests_of(trial)
    check_same(node, here, dict(here))
    things = ['the source of "slowly"', 'the model "tiny-bert"', 'the suite "graded"']
    for thing in ["the source of harness", "the package torch", *things]:
        sentence = (
            f"^the machine {re.escape(node)} of the cluster has another version of {thing}: put "
        )
        with pytest.raises(UserError, match=sentence):
            check_same(node, here, here | {thing: "other"})
    with pytest.raises(UserError, match=r"^the machine node-3 of the cluster cannot run .*: no x"):
        check_same("node-3", here, "no x")
    monkeypatch.setattr(capacity, "version", raising(PackageNotFoundError("torch")))
    with pytest.raises(UserError, match=r"cannot run trials: it does not have the package torch$"):
        check_same("node-3", {}, capacity.digests_or_reason([]))
