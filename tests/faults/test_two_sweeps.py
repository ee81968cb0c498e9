"""Two sweeps at once in one store share the work."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.trials.store import Store
from tests.programs import Answer
from tests.sweeping import ONE_AT_A_TIME, write_space

pytestmark = [pytest.mark.slow, pytest.mark.process]

METHODS = "  shared: {grid: {learning_rate: [0.001, 0.002, 0.003, 0.004], width: [4, 8]}}"
TRIALS = 4 * 2 + 2


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
    write_space(folder, METHODS, "search: {seeds: [42]}", final="[0, 1]", max_steps=4)
    return path


@pytest.fixture(scope="module")
def together(shared: Path, folder: Path, process: Callable[..., Answer]) -> list[Answer]:
    """The answers of two sweeps that began together in the store `together`."""
    words = ["sweep", "--no-local", shared, folder / "space.yaml", "--store", folder / "together"]
    with ThreadPoolExecutor() as both:
        begun = [both.submit(process, *words, *ONE_AT_A_TIME) for _ in range(2)]
        return [sweep.result() for sweep in begun]


# More than 20 s: two sweeps with a Ray each start at once.
def test_two_sweeps_started_together_run_every_trial_once(
    together: list[Answer], folder: Path
) -> None:
    assert [answer.code for answer in together] == [0, 0], together
    store = folder / "together"
    assert len(Store(store).read().records()) == TRIALS
    assert len((folder / "runs").read_text().splitlines()) == TRIALS
    assert not (store / ".running").exists() or not list((store / ".running").iterdir())
    one, other = (answer.out.splitlines()[-3:] for answer in together)
    assert one == other, "both print the same table"
