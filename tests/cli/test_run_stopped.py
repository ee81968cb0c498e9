"""`harness run` that is stopped or killed goes on with the same command, to the same record."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.trials.store import Store
from tests.cli.conftest import sets
from tests.programs import run_module
from tests.sweeping import write_few_pairs
from tests.tracking.readers import tensorboard

pytestmark = [pytest.mark.slow, pytest.mark.process]
STEPS = 60
PLUGIN = '''"""SimCSE that takes its time, and writes down every batch."""

import os
import time
from pathlib import Path

from methods.simcse.method import Method as SimCSE


class Method(SimCSE):
    def losses(self, batch, stage):
        with Path("batches").open("a") as file:
            file.write("one\\n")
        time.sleep(float(os.environ.get("HARNESS_TEST_PAUSE", "0.1")))
        return super().losses(batch, stage)
'''
VALUES = sets(
    suite="few.py", sentences="graded-sentences", max_steps=STEPS, epochs=9, batch_size=8,
    evaluation_interval=20, precision="fp32",
)  # fmt: skip
RUN = ["slowly.py", "--encoder", "tiny-bert", "--store", "store", "--track", "tensorboard", *VALUES]
OF_THE_RUN = {"started", "sentences_per_second", "peak_host_memory_mib", "commit", "plugin"}


def heed_ctrl_c() -> None:
    """Jobs in the background, such as those of a CI, ignore Ctrl-C; their children inherit this."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Folder:
    """A folder with the plugin, in which `harness run` trains it."""

    def __init__(self, folder: Path, cache: Path) -> None:
        folder.mkdir()
        self.folder, self.store = folder, Store(folder / "store")
        inherited = {name: text for name, text in os.environ.items() if name != "HARNESS_HUB"}
        self.environment = {**inherited, "HARNESS_CACHE": str(cache)}
        (folder / "slowly.py").write_text(PLUGIN, encoding="utf-8")
        write_few_pairs(folder)

    def start(self, minutes: str) -> subprocess.Popen[str]:
        """The command as a process."""
        return subprocess.Popen(
            [sys.executable, "-m", "harness", "run", *RUN], cwd=self.folder, text=True,
            env={**self.environment, "HARNESS_CHECKPOINT_MINUTES": minutes},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c,
        )  # fmt: skip

    def finish(self) -> dict[str, Any]:
        """The same command to its end, in a process in which no other test has run.

        It returns the fields of its record that do not depend on the time.
        """
        environment = {**self.environment, "HARNESS_TEST_PAUSE": "0"}
        answer = run_module("harness", "run", *RUN, environment=environment, folder=self.folder)
        assert answer.code == 0, answer.out + answer.err
        [record] = self.store.read().records()
        return {
            name: value
            for name, value in vars(record).items()
            if name not in OF_THE_RUN and not name.endswith("_seconds")
        }

    def tracked(self) -> None:
        """Compare the history of the record with what the tracker has: every value once."""
        [run] = tensorboard(self.store.tracking_folder)
        [record] = self.store.read().records()
        for metric in {point["metric"] for point in record.history}:
            steps = [point["step"] for point in record.history if point["metric"] == metric]
            assert [step for step, _ in run.values[metric]] == steps

    def batches(self) -> int:
        """The number of batches so far, of all processes."""
        path = self.folder / "batches"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def running(self) -> list[str]:
        """The files of the running trials."""
        return [path.name for path in self.store.running_folder.rglob("*.*")]

    def wait(self, ready: Callable[[], bool], command: subprocess.Popen[str]) -> None:
        """Wait until it is time."""
        until = time.monotonic() + 600
        while not ready():
            assert command.poll() is None, command.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Callable[[str], Folder]:
    """folder(name): a folder with the plugin."""
    base = tmp_path_factory.mktemp("stopped")
    return lambda name: Folder(base / name, cache)


@pytest.fixture(scope="module")
def undisturbed(folder: Callable[[str], Folder]) -> dict[str, Any]:
    return folder("undisturbed").finish()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_loses_no_step(
    number: signal.Signals, folder: Callable[[str], Folder], undisturbed: dict[str, Any]
) -> None:
    here = folder(number.name)
    command = here.start("5")
    here.wait(lambda: here.batches() > 5, command)
    command.send_signal(number)
    _, err = command.communicate(timeout=600)
    assert command.returncode == 130
    assert err.strip().splitlines() == [
        "Interrupted. What has finished is in the store; the same command goes on from there."
    ]
    assert here.running() == ["checkpoint.safetensors"]
    assert here.finish() == undisturbed
    here.tracked()
    assert here.batches() == STEPS, "every step once"
    assert here.running() == []


def test_a_killed_run_goes_on_from_its_checkpoint(
    folder: Callable[[str], Folder], undisturbed: dict[str, Any]
) -> None:
    here = folder("killed")
    command = here.start("0")
    here.wait(lambda: "checkpoint.safetensors" in here.running(), command)
    time.sleep(0.77)
    command.kill()
    command.communicate()
    before = here.batches()
    assert here.finish() == undisturbed
    here.tracked()
    assert STEPS <= here.batches() < STEPS + before, "not from the start"
