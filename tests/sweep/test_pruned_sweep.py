"""A sweep with a pruner on Ray: it is killed, and the same command goes on with its study.

At the niceness that Ray gives workers they would starve beside any other work; the plugin notes it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from harness.trials.store import Store
from tests.programs import started
from tests.sweeping import ONE_AT_A_TIME, wait_for, write_space

pytestmark = [pytest.mark.slow, pytest.mark.process]

STEPS = 12
RATES = "[1.0e-9, 3.0e-2, 4.0e-2, 5.0e-2, 6.0e-2]"  # the first one loses nothing


# More than 20 s: a sweep with a Ray that is killed, and another one that goes on.
def test_a_killed_sweep_with_a_pruner_is_finished_by_the_same_command(
    tmp_path: Path, write_plugin: Callable[..., Path], environment: dict[str, str], process: Any
) -> None:
    """The sweep is killed after its first trial, given again, and once more."""
    plugin = write_plugin(tmp_path / "pruned.py", "trained", pause=0.2)
    store = Store(tmp_path / "store")
    space = write_space(
        tmp_path, f"  pruned: {{grid: {{learning_rate: {RATES}}}}}",
        "pruner: {name: asha, reduction_factor: 2}", max_steps=STEPS, evaluation_interval=1,
    )  # fmt: skip
    command = ["sweep", "--no-local", plugin, space, "--store", store.folder, *ONE_AT_A_TIME]
    null = Path(os.devnull)
    with started("harness", *map(str, command), environment=environment, out=null, err=null):
        wait_for(lambda: list(store.folder.glob("*.parquet")), 600)
    assert 1 <= len(list(store.folder.glob("*.parquet"))) < 5
    resumed, again = process(*command), process(*command)
    assert resumed.code == 0, resumed.out + resumed.err
    assert "its search pruned it after" in resumed.out
    assert again.code == 0, again.out + again.err
    assert "search, round 1: 0 to run, 5 already in the store" in again.out
    assert "final seeds: 0 to run, 1 already in the store" in again.out

    rows = store.read().records()
    points = [point for row in rows for point in row.history if point["metric"] == "niceness"]
    assert {point["value"] for point in points} == {os.getpriority(os.PRIO_PROCESS, 0)}
    searched = [row for row in rows if row.role == "search"]
    assert len({row.configuration["learning_rate"] for row in searched}) == 5
    assert {row.status for row in searched} == {"finished", "pruned"}
    for row in searched:
        curve = [point["value"] for point in row.history if point["metric"] == "dev"]
        assert row.dev_score == max(curve)
        if row.status == "pruned":
            assert len(curve) == row.steps < STEPS
            assert row.reason == f"its search pruned it after {row.steps} steps"
        else:
            assert row.steps == STEPS
    [final] = [row for row in rows if row.role == "final"]
    best = max((row for row in searched if row.finished), key=lambda row: row.dev_score or 0.0)
    assert final.configuration["learning_rate"] == best.configuration["learning_rate"]

    [path] = store.studies_folder.iterdir()
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    [name] = optuna.get_all_study_names(storage)
    states = {"finished": "COMPLETE", "pruned": "PRUNED"}
    trials = optuna.load_study(study_name=name, storage=storage).trials
    # The driver may have been killed just when it wrote down a configuration, which runs nowhere.
    trials = [trial for trial in trials if "trials" in trial.user_attrs]
    found = {trial.user_attrs["trials"][0]: (trial.state.name, trial.value) for trial in trials}
    assert found == {row.key: (states[row.status], row.dev_score) for row in searched}
    assert len(trials) == 5
