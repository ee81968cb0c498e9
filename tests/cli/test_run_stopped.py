"""`harness run` that is stopped or killed goes on with the same command, to the same record."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.trials.store import Store
from tests.cli.conftest import sets
from tests.programs import forking_python, run_module
from tests.sweep.test_local import SLOWLY, logged
from tests.sweeping import heed_signals, results, wait_for, write_few_pairs
from tests.tracking.readers import tensorboard

STEPS = 60
VALUES = sets(
    suite="few.py", sentences="graded-sentences", max_steps=STEPS, epochs=9, batch_size=8,
    evaluation_interval=20, precision="fp32",
)  # fmt: skip
RUN = ["run", "slowly.py", "--encoder", "tiny-bert", "--store", "store", *VALUES]


class Folder:
    """A folder with a plugin that notes each batch in its log; `harness run` trains it there."""

    def __init__(self, folder: Path, cache: Path) -> None:
        folder.mkdir()
        self.folder, self.store = folder, Store(folder / "store")
        inherited = {name: text for name, text in os.environ.items() if name != "HARNESS_HUB"}
        self.environment = {**inherited, "HARNESS_CACHE": str(cache)}
        (folder / "slowly.py").write_text(SLOWLY, encoding="utf-8")
        write_few_pairs(folder)

    def stopped(self, number: int, minutes: str, batches: int) -> tuple[int, str]:
        """Exit code and stderr after a signal behind so many batches; SIGPIPE: its reader goes."""
        more = {"HARNESS_CHECKPOINT_MINUTES": minutes, "HARNESS_TEST_PAUSE": "0.1"}
        command = subprocess.Popen(
            [forking_python(), "-m", "harness", *RUN, "--track", "tensorboard"], cwd=self.folder,
            env=self.environment | more, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=heed_signals, start_new_session=True,
        )  # fmt: skip
        wait_for(lambda: self.batches() > batches or command.poll() is not None)
        assert command.poll() is None, command.communicate()
        if number == signal.SIGPIPE:
            assert command.stdout
            command.stdout.close()
        else:
            command.send_signal(number)
        if number == signal.SIGHUP:  # the shell and the system send it
            command.send_signal(number)
        _, err = command.communicate(timeout=600)
        return command.returncode, err

    def finish(self) -> dict[str, Any]:
        """The same command to its end: the fields of its record that do not depend on the time."""
        environment = {**self.environment, "HARNESS_TEST_PAUSE": "0"}
        words = [*RUN, "--track", "tensorboard"]
        answer = run_module("harness", *words, environment=environment, folder=self.folder)
        assert answer.code == 0, answer.out + answer.err
        [record] = results(self.store.folder, "commit", "plugin").values()
        return record

    def batches(self) -> int:
        """The number of batches so far, of all processes."""
        return logged(self.store).count("a batch")

    def running(self) -> list[str]:
        """The files of the running trials."""
        return [path.name for path in self.store.running_folder.rglob("*.*")]


# More than 20 s: a command that trains is started eight times.
@pytest.mark.slow
@pytest.mark.process
def test_a_stopped_run_loses_no_step_and_a_killed_one_goes_on(tmp_path: Path, cache: Path) -> None:
    """The killed one goes on from its checkpoint."""
    undisturbed = Folder(tmp_path / "undisturbed", cache).finish()
    here = Folder(tmp_path / "stopped", cache)
    sentence = (
        "Interrupted. What has finished is in the store; the same command goes on from there."
    )
    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP)
    for number, batches in zip(stops, (5, 10, 15, 20), strict=True):
        code, err = here.stopped(number, "5", batches)
        assert (code, err.strip().splitlines()) == (130, [sentence])
        assert here.running() == ["checkpoint.safetensors"]
    assert here.finish() == undisturbed
    assert here.batches() == STEPS, "every step once"
    assert here.running() == []
    [run] = tensorboard(here.store.tracking_folder)
    [record] = here.store.read().records()
    for metric in {point["metric"] for point in record.history}:
        steps = [point["step"] for point in record.history if point["metric"] == metric]
        assert [step for step, _ in run.values[metric]] == steps, "every value once"

    here = Folder(tmp_path / "killed", cache)
    here.stopped(signal.SIGKILL, "0", 9)
    before = here.batches()
    assert "checkpoint.safetensors" in here.running()
    assert here.finish() == undisturbed
    assert STEPS <= here.batches() < STEPS + before, "not from the start"
