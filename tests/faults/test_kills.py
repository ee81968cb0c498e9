"""Sweeps that are killed at a random moment: nothing is lost, and the same command ends the work.

Each try starts a sweep, kills one of its processes, finishes the sweep in the process of the test
(in test_ray.py and tests/sweep/test_pruned_sweep.py, the same command does that), and compares the
store with that of a sweep that nobody disturbed. `HARNESS_KILLS=20` makes more tries than CI does.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.files import PACKAGE
from harness.trials.running import RunningTrial, running_trials
from harness.trials.store import Store
from tests.clusters import cluster, start_node
from tests.programs import forking_python
from tests.sweeping import FEW_PAIRS, heed_signals, marked_processes, results, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process]

SPACE = """\
setting: unsup
suite: FOLDER/suite.py
select: {metric: few-dev}
final: {seeds: [0, 1]}
encoders: [FOLDER/own-bert]
set: {sentences: FOLDER/sentences.txt, max_steps: 12, batch_size: 8, precision: fp32}
methods:
  slowly:
    grid:
      learning_rate: [1e-3, 1e-2]
      width: [4, 8]
"""
UNIT = "UNIT = Path(__file__).with_name('unit.txt')\nfew_pairs = "
SUITE = FEW_PAIRS.replace("few_pairs = ", UNIT).replace("    list,\n", "    lambda: [UNIT],\n")
SUITE = SUITE.replace('SuiteCard("few"', 'SuiteCard("few", unit=UNIT.read_text()')
"""The suite of a few pairs with a file of its own"""
TRIALS = 6
VICTIMS = ("driver", "raylet", "worker", "head")
"""Whom the tries kill in turn"""
COMMANDS = {"worker": "ray::TrialWorker", "raylet": "raylet/raylet ", "head": "gcs_server"}
"""Victim -> a part of its command line"""
TRIES = int(os.environ.get("HARNESS_KILLS", 1))
"""Further victims in CI: a worker in test_limits.py, the head in test_ray.py, a raylet below"""
Results = dict[str, dict[str, Any]]
"""Key -> the columns that are part of the result"""


def written(store: Path) -> dict[str, int]:
    """File name -> the time when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in store.glob("*.parquet")}


@pytest.fixture(scope="module")
def targets(
    tmp_path_factory: pytest.TempPathFactory, write_plugin: Callable[..., Path]
) -> list[Path]:
    """A plugin whose trials take seconds, and its space; both name all other files by paths."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "space.yaml").write_text(SPACE.replace("FOLDER", str(folder)), encoding="utf-8")
    head = "from pathlib import Path\n\nPAIRS = 40\n"
    (folder / "suite.py").write_text(head + SUITE, encoding="utf-8")
    (folder / "unit.txt").write_text("Spearman x100", encoding="utf-8")
    shutil.copy(EMBEDDED / "datasets" / GRADED / "sentences.txt", folder)
    shutil.copytree(EMBEDDED / "models" / "tiny-bert", folder / "own-bert")
    return [write_plugin(folder / "slowly.py", "trained", pause=0.2), folder / "space.yaml"]


@pytest.fixture(scope="module")
def undisturbed(targets: list[Path], serially: Callable[..., Any]) -> Results:
    """The results of a sweep that nobody disturbed."""
    store = targets[0].parent / "undisturbed"
    answer = serially(*targets, "--store", store)
    assert answer.code == 0, answer.out + answer.err
    assert len(results(store, "commit")) == TRIALS
    return results(store, "commit")


@dataclass
class Sweep:
    """A sweep of the targets in a store of its own."""

    targets: list[Path]
    store: Path
    environment: dict[str, str]
    serially: Callable[..., Any]
    left: Callable[[str, float], list[int]]
    """left(mark, seconds): the processes that are left after so many seconds at most"""

    @contextmanager
    def started(
        self, *options: str, command: Sequence[str] = (), **changed: str
    ) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """The running driver and its mark; it begins when the first trial is in the store.

        It and its workers are forks, unless `command` begins a program. Other keywords change the
        environment.
        """
        mark = uuid.uuid4().hex
        words = ["sweep", "--no-local", *map(str, self.targets), "--store", str(self.store)]
        driver = subprocess.Popen(
            [*(command or [forking_python(), "-m", "harness"]), *words, *options],
            env=self.environment | changed | {"HARNESS_TEST_MARK": mark}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to the whole group, as for a job of a shell
            preexec_fn=heed_signals,
        )  # fmt: skip
        try:
            wait_for(lambda: written(self.store) or driver.poll() is not None, 900)
            assert driver.poll() is None, driver.communicate()
            assert written(self.store), "no trial was stored in fifteen minutes"
            yield driver, mark
        finally:
            for number in self.left(mark, 0):
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            driver.communicate()

    def finish(self) -> None:
        """Run the same command to its end, in this process."""
        answer = self.serially(*self.targets, "--store", self.store)
        assert answer.code == 0, answer.out + answer.err


@pytest.fixture
def sweep(
    targets: list[Path], environment: Any, serially: Any, tmp_path: Path, processes_left: Any
) -> Sweep:
    return Sweep(targets, tmp_path / "store", environment, serially, processes_left)


def wait_for_a_start(store: Path) -> None:
    """Wait until a trial begins, which then has seconds to go."""
    known = set((store / ".running").glob("*/claim"))
    wait_for(lambda: set((store / ".running").glob("*/claim")) - known)


# More than 20 s: each victim needs a sweep of its own that is under way, and one that goes on.
@pytest.mark.parametrize("seed", range(TRIES))
def test_nothing_is_lost_whoever_is_killed(
    seed: int, undisturbed: Results, sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, victim, store = random.Random(seed), VICTIMS[seed % len(VICTIMS)], sweep.store
    # What looks for processes does not see that a fork is a worker.
    command = [sys.executable, "-m", "harness"] if victim == "worker" else ()
    with sweep.started(command=command) as (driver, mark):
        time.sleep(chance.uniform(0, 4))
        part = COMMANDS.get(victim)
        there = marked_processes(mark, part) if part else [driver.pid]
        kept = results(store, "commit")
        if there:  # a worker may be between two trials
            os.kill(chance.choice(there), signal.SIGKILL)
        _, err = driver.communicate(timeout=900)
        assert "Traceback" not in err, err
        left = sweep.left(mark, 60 if victim == "driver" else 300)
        assert victim != "driver" or not left
    after = results(store, "commit")
    lost = [key for key, row in kept.items() if after.get(key) != row]
    clock = time.monotonic()
    sweep.finish()
    with capsys.disabled():
        print(
            f"\nkill {seed}: {victim}, exit code {driver.returncode}, {len(kept)} trials stored "
            f"before, {len(lost)} of them lost, the rest took {time.monotonic() - clock:.0f} s"
        )
    assert not lost
    assert results(store, "commit") == undisturbed
    assert not list((store / ".running").glob("*/claim"))


def hiding(*folders: Path) -> list[str]:
    """A command's beginning that empties folders; "" where the system does not allow that."""
    root = [] if os.getuid() == 0 else ["--map-root-user"]
    script = 'while [ "$1" != -- ]; do mount -t tmpfs none "$1" || exit 1; shift; done; shift; "$@"'
    command = ["unshare", "--mount", *root, "sh", "-c", script, "sh", *map(str, folders), "--"]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return [] if tried.returncode else command


# More than 20 s: three Rays start on one machine, and a lost node is noticed after some seconds.
def test_a_node_of_two_is_lost(undisturbed: Results, sweep: Sweep, tmp_path: Path) -> None:
    """They are not the head, and the one that stays has neither harness nor the files of paths."""
    store, cache = sweep.store, tmp_path / "cache"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex * 2}
    mark = {"HARNESS_TEST_MARK": uuid.uuid4().hex}
    ray = {
        "RAY_worker_niceness": "0",  # the plugin watches it, and Ray would add 15
        "RAY_health_check_period_ms": "500",  # so a lost node is noticed after three seconds
    }
    nodes = sweep.environment | token | mark | ray
    hidden = hiding(sweep.targets[0].parent, PACKAGE)
    with cluster(nodes, "--num-cpus=0") as address:
        raylets = []
        for before in (hidden, ()):
            others = nodes | {"HARNESS_CACHE": str(cache)}
            start_node(others, f"--address={address}", "--num-cpus=1", before=before)
            raylets.append({*marked_processes(mark["HARNESS_TEST_MARK"], COMMANDS["raylet"])})
        [lost] = raylets[1] - raylets[0]
        assert len(raylets[0]) == 2
        with sweep.started("--address", address, **token) as (driver, _):
            kept = results(store, "commit")
            wait_for_a_start(store)
            os.kill(lost, signal.SIGKILL)
            out, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, out + err
    assert len(kept) < TRIALS
    assert "2 at a time" in out
    assert results(store, "commit") == undisturbed
    assert not list((store / ".running").glob("*/claim"))
    assert (cache / "tokens").exists()  # they have trained
    assert (cache / "travelled").exists() == bool(hidden)


# More than 20 s: two sweeps with a Ray, whose ends are seen.
def test_ctrl_c_leaves_nothing_running_and_the_sweep_goes_on(
    undisturbed: Results, sweep: Sweep
) -> None:
    """A terminal that goes sends SIGHUP to all processes twice, where it has a shell."""
    stopped(sweep, signal.SIGINT)
    before = written(sweep.store)
    stopped(sweep, signal.SIGHUP, signal.SIGHUP)
    sweep.finish()
    assert {name: written(sweep.store)[name] for name in before} == before
    assert results(sweep.store, "commit") == undisturbed


def halfway(trial: RunningTrial) -> bool:
    """Whether a trial has done a step, so that it leaves a checkpoint, and has seconds to go."""
    return trial.progress is not None and trial.progress.step <= trial.progress.total_steps // 2


def stopped(sweep: Sweep, *signals: int) -> None:
    """The sweep is started, and stopped by signals to all its processes."""
    store = sweep.store
    with sweep.started(HARNESS_TEST_PAUSE="1") as (driver, mark):
        wait_for(lambda: any(map(halfway, running_trials(Store(store)))))
        for number in signals:
            os.killpg(driver.pid, number)
        _, err = driver.communicate(timeout=600)
        assert driver.returncode == 130
        assert "Interrupted. What has finished is in the store; the same command goes on" in err
        assert "Traceback" not in err
        assert sweep.left(mark, 300) == []
    assert 0 < len(written(store)) < TRIALS
    # The trials that were running go on from where they were, and nobody else holds them.
    assert list((store / ".running").glob("*/checkpoint.safetensors"))
    assert not list((store / ".running").glob("*/claim"))
    assert {row["status"] for row in results(store, "commit").values()} == {"finished"}
