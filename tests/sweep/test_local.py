"""A sweep in the process of its command, without Ray."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.sweeps.local_pool import runs_here
from harness.sweeps.machines import Limits, Resources
from harness.sweeps.spaces.overrides import Overrides, shipped_spaces
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.trials.store import Store
from tests.programs import forking_python
from tests.sweeping import heed_signals, results, wait_for, write_space

METHODS = "  ./slowly.py: {grid: {learning_rate: [1e-4, 5e-4]}}"
SLOWLY = '''"""SimCSE that takes its time."""

import os
import time

from methods.simcse.method import Method as SimCSE


class Method(SimCSE):
    def losses(self, batch, stage):
        print("a batch")
        time.sleep(float(os.environ.get("HARNESS_TEST_PAUSE", "0")))
        return super().losses(batch, stage)
'''


def logged(store: Store) -> str:
    """Output of the trials of a store."""
    folder = store.folder.with_name(f"{store.folder.name}-logs")
    return "".join(path.read_text(encoding="utf-8") for path in folder.glob("*"))


@pytest.mark.parametrize(
    "option", ["--address=1.2.3.4:5", "--dashboard", "--trial-timeout=1h", "--memory-per-trial=1"]
)
def test_what_one_process_cannot_do_is_refused(option: str, serially: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match=f"this process, which has no {option.split('=')[0]}"):
        serially("simcse", "quickstart", option)


def test_short_sweeps_and_single_slots_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = searches(*load_space(shipped_spaces()["quickstart"]), Overrides(methods=("pooling",)))

    def here(cores: int, cpus: float = 1, **limits: float) -> bool:
        monkeypatch.setattr("os.cpu_count", lambda: cores)
        return runs_here(planned, Resources(cpus), Limits(**limits))

    assert here(2), "it is shorter than the start of Ray"
    assert here(1)
    assert here(4, 3), "there is one slot"
    assert not here(1, 2), "no machine has as many cores, which Ray says"
    assert not here(2, seconds=60.0), "a trial with limits has a process of its own"
    monkeypatch.setenv("RAY_ADDRESS", "1.2.3.4:5")
    assert not here(1), "the cluster has slots"


def stopped(
    space: Path, store: Store, environment: dict[str, str], *, reader_goes: bool
) -> tuple[int, str]:
    """Exit code and stderr of a sweep that gets Ctrl-C, or whose reader goes as `| head` does."""
    before = logged(store).count("a batch")
    command = subprocess.Popen(
        [forking_python(), "-m", "harness", "sweep", "--local", space, "--store", store.folder],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, preexec_fn=heed_signals,
    )  # fmt: skip
    wait_for(lambda: logged(store).count("a batch") > before or command.poll() is not None)
    if reader_goes:
        assert command.stdout
        command.stdout.close()
    else:
        command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=300)
    return command.returncode, err


@pytest.mark.slow
@pytest.mark.process
def test_ctrl_c_saves_the_trial_and_the_same_command_goes_on(
    tmp_path: Path, cache: Path, serially: Callable[..., Any]
) -> None:
    (tmp_path / "slowly.py").write_text(SLOWLY, encoding="utf-8")
    search = "search: {seeds: [42]}"
    space = write_space(tmp_path, METHODS, search, max_steps=12, evaluation_interval=4)
    whole = serially(space, "--store", tmp_path / "whole")
    assert whole.code == 0, whole.err
    inherited = {name: text for name, text in os.environ.items() if name != "HARNESS_HUB"}
    store = Store(tmp_path / "store")
    environment = {**inherited, "HARNESS_CACHE": str(cache), "HARNESS_TEST_PAUSE": "0.2"}
    for reader_goes in (False, True):
        code, err = stopped(space, store, environment, reader_goes=reader_goes)
        assert code == 130, err
        assert "Interrupted" in err
        assert list(store.running_folder.rglob("checkpoint.safetensors"))
        assert not store.read().table.num_rows
    assert serially(space, "--store", store.folder).code == 0
    assert results(store.folder, "threads") == results(tmp_path / "whole", "threads")
