"""`harness watch` shows what runs on a store, from its claims and notes alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.claims import claimed
from harness.sweeps.screen.live_view import SweepState, publishing, running_sweeps
from harness.training.progress import Progress
from harness.trials.running import noted, running_trials
from harness.trials.store import Store
from harness.trials.store_folders import PROGRESS
from tests.cli.conftest import Shown

KEY = "a" * 32


@pytest.fixture
def store(store: Path) -> Store:
    return Store(store)


@pytest.fixture
def watched(shown: Shown, store: Store) -> Callable[[], str]:
    """watched(): what `harness watch --once` prints."""
    return lambda: shown("watch", "--once", "--store", store.folder)


def test_a_sweep_and_its_trial(watched: Callable[[], str], store: Store) -> None:
    assert "Nothing runs" in watched()
    assert not store.folder.exists()
    heard: list[Progress] = []
    state = SweepState("final seeds", 3, 1, done=1, failed=1, best=31.5, best_label="that")
    running, left = store.running(KEY), store.sweeps_folder / ("0" * 32)
    left.mkdir(parents=True)
    (left / "state.json").write_text("{}")
    with (
        publishing(store) as publish,
        claimed(store.claim(KEY), "a trial"),
        noted("simcse unsup tiny-bert seed 3", heard.append, running) as report,
    ):
        assert running_sweeps(store) == [], "nothing before the first state"
        publish(state)
        assert not left.exists(), "what a killed sweep has left is removed by the next one"
        assert running_sweeps(store) == [state]
        assert "simcse unsup tiny-bert seed 3" in watched()
        for step, dev in ((10, 30.0), (20, None), (30, 34.0)):
            report(Progress(step, 60, 0.25, dev, 100.0))
        shown = watched()
        for part in ("30/60", "0.250", "34.00", "▁█", "final seeds: 1/3 done, 1 failed", "31.50"):
            assert part in shown
        [folder] = store.sweeps_folder.iterdir()
        (folder / "state.json").write_text("{")
        assert running_sweeps(store) == []
    assert [progress.step for progress in heard] == [10, 20, 30]
    assert not (running / PROGRESS).exists()
    assert not store.sweeps_folder.exists()
    assert "Nothing runs" in watched()
    with noted("simcse", lambda _: None, store.running(KEY)):  # a killed trial: nobody claims it
        assert not running_trials(store)
        assert "Nothing runs" in watched()
