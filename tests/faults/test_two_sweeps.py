"""Two sweeps at once in one store share the work."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.trials.store import Store
from tests.sweeping import ONE_AT_A_TIME, write_few_pairs

pytestmark = [pytest.mark.slow, pytest.mark.process]

SPACE = """\
setting: unsup
suite: FEW
select: {metric: few-dev}
search: {seeds: [42]}
final: {seeds: [0, 1]}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 4, batch_size: 8, precision: fp32}
methods:
  shared:
    grid:
      learning_rate: [0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009]
      width: [4, 8]
"""
TRIALS = 9 * 2 + 2

Start = Callable[[Path], subprocess.Popen[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the plugin, its search space and the stores."""
    return tmp_path_factory.mktemp("two-sweeps")


@pytest.fixture(scope="module")
def shared(folder: Path, write_plugin: Callable[..., Path]) -> Path:
    """A plugin that writes a line to the file `runs` whenever a trial of it begins."""
    path = write_plugin(folder / "shared.py", "trained", pause=0.1)
    line = f"Path({str(folder / 'runs')!r}).open('a').write(f'{{os.getpid()}} {{config}}\\n')"
    start = "        super().__init__(config, kit)\n"
    path.write_text(path.read_text().replace(start, f"{start}        {line}\n", 1))
    (folder / "space.yaml").write_text(SPACE.replace("FEW", str(write_few_pairs(folder))))
    return path


@pytest.fixture(scope="module")
def start(shared: Path, folder: Path, environment: dict[str, str]) -> Iterator[Start]:
    """start(store): begin a sweep in a process group of its own; it is killed in the end."""
    begun: list[subprocess.Popen[str]] = []

    def sweep(store: Path) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "harness",
            "sweep",
            "--no-local",
            shared,
            folder / "space.yaml",
        ]
        begun.append(
            subprocess.Popen(
                [*map(str, command), "--store", str(store), *ONE_AT_A_TIME],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )
        return begun[-1]

    yield sweep
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="module")
def together(start: Start, folder: Path) -> list[tuple[int | None, str]]:
    """The exit codes and the outputs of two sweeps that began together in the store `together`."""
    both = [start(folder / "together"), start(folder / "together")]
    outputs = [process.communicate(timeout=1500)[0] for process in both]
    return [(process.returncode, out) for process, out in zip(both, outputs, strict=True)]


# More than 20 s: two sweeps with a Ray each start at once.
def test_two_sweeps_started_together_run_every_trial_once(
    together: list[tuple[int | None, str]], folder: Path
) -> None:
    assert [code for code, _ in together] == [0, 0], together
    store = folder / "together"
    assert len(Store(store).read().records()) == TRIALS
    assert len((folder / "runs").read_text().splitlines()) == TRIALS
    assert not (store / ".running").exists() or not list((store / ".running").iterdir())


def test_both_print_the_same_table(together: list[tuple[int | None, str]]) -> None:
    one, other = (output.splitlines()[-3:] for _, output in together)
    assert one == other
