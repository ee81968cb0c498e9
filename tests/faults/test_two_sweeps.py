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


# More than 20 s: two sweeps with a Ray each start at once.
def test_two_sweeps_started_together_run_every_trial_once(
    tmp_path: Path, write_plugin: Callable[..., Path], process: Callable[..., Answer]
) -> None:
    """The plugin writes a line to the file `runs` whenever a trial of it begins."""
    plugin, store = write_plugin(tmp_path / "shared.py", "trained", pause=0.1), tmp_path / "store"
    line = f"Path({str(tmp_path / 'runs')!r}).open('a').write(f'{{os.getpid()}} {{config}}\\n')"
    start = "        super().__init__(config, kit)\n"
    plugin.write_text(plugin.read_text().replace(start, f"{start}        {line}\n", 1))
    space = write_space(tmp_path, METHODS, "search: {seeds: [42]}", final="[0, 1]", max_steps=4)
    words = ["sweep", "--no-local", plugin, space, "--store", store, *ONE_AT_A_TIME]
    with ThreadPoolExecutor() as both:
        begun = [both.submit(process, *words) for _ in range(2)]
        one, other = (sweep.result() for sweep in begun)
    assert (one.code, other.code) == (0, 0), (one, other)
    assert len(Store(store).read().records()) == TRIALS
    assert len((tmp_path / "runs").read_text().splitlines()) == TRIALS
    assert not (store / ".running").exists() or not list((store / ".running").iterdir())
    assert one.out.splitlines()[-3:] == other.out.splitlines()[-3:], "both print the same table"
