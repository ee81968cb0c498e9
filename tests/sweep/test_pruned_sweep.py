"""A sweep with a pruner on Ray: it is killed, and the same command goes on with its study."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from harness.trials.record import Record
from harness.trials.store import Store
from tests.programs import started
from tests.sweeping import ONE_AT_A_TIME, write_few_pairs

pytestmark = [pytest.mark.slow, pytest.mark.process]

STEPS = 12
SPACE = f"""\
suite: FEW
select: {{metric: few-dev}}
final: {{seeds: [0]}}
encoders: [tiny-bert]
set:
  sentences: graded-sentences
  max_steps: {STEPS}
  evaluation_interval: 1
  batch_size: 8
  precision: fp32
pruner: {{name: asha, reduction_factor: 2}}
methods:
  pruned:
    grid:
      learning_rate: [1.0e-9, 3.0e-2, 4.0e-2, 5.0e-2, 6.0e-2]  # the first one loses nothing
"""


@dataclass
class Swept:
    """The answers of the command after the kill and of the same command again, and the store."""

    resumed: Any
    again: Any
    killed_with: int
    """Records that the killed sweep had written"""
    rows: list[Record]
    studies: Path

    @property
    def searched(self) -> list[Record]:
        """The search trials."""
        return [row for row in self.rows if row.role == "search"]


@pytest.fixture(scope="module")
def swept(
    tmp_path_factory: pytest.TempPathFactory,
    write_plugin: Callable[..., Path],
    environment: dict[str, str],
    process: Callable[..., Any],
) -> Swept:
    """A sweep that was killed after its first trial, given again, and once more."""
    folder = tmp_path_factory.mktemp("pruned")
    plugin = write_plugin(folder / "pruned.py", "trained", pause=0.2)
    space, store = folder / "space.yaml", Store(folder / "store")
    few = str(write_few_pairs(folder))
    space.write_text(SPACE.replace("FEW", few), encoding="utf-8")
    command = ["sweep", "--no-local", plugin, space, "--store", store.folder, *ONE_AT_A_TIME]
    null = Path(os.devnull)
    with started("harness", *map(str, command), environment=environment, out=null, err=null):
        until = time.monotonic() + 600
        while not list(store.folder.glob("*.parquet")) and time.monotonic() < until:
            time.sleep(0.05)
    written = len(list(store.folder.glob("*.parquet")))
    resumed, again = process(*command), process(*command)
    return Swept(resumed, again, written, store.read().records(), store.studies_folder)


# More than 20 s: a sweep with a Ray that is killed, and another one that goes on.
def test_the_killed_sweep_is_finished_by_the_same_command(swept: Swept) -> None:
    assert 1 <= swept.killed_with < 5
    assert swept.resumed.code == 0, swept.resumed.out + swept.resumed.err
    assert len({row.configuration["learning_rate"] for row in swept.searched}) == 5
    assert {row.status for row in swept.searched} == {"finished", "pruned"}


def test_a_pruned_trial_is_stored_with_its_score_at_its_end(swept: Swept) -> None:
    for row in swept.searched:
        curve = [point["value"] for point in row.history if point["metric"] == "dev"]
        assert row.dev_score == max(curve)
        if row.status == "pruned":
            assert len(curve) == row.steps < STEPS
            assert row.reason == f"its search pruned it after {row.steps} steps"
        else:
            assert row.steps == STEPS


def test_a_finished_configuration_is_chosen(swept: Swept) -> None:
    [final] = [row for row in swept.rows if row.role == "final"]
    finished = [row for row in swept.searched if row.finished]
    best = max(finished, key=lambda row: row.dev_score or 0.0)
    assert final.configuration["learning_rate"] == best.configuration["learning_rate"]
    assert "its search pruned it after" in swept.resumed.out


def test_the_study_says_the_same_as_the_store(swept: Swept) -> None:
    [path] = swept.studies.iterdir()
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    [name] = optuna.get_all_study_names(storage)
    states = {"finished": "COMPLETE", "pruned": "PRUNED"}
    stored = {row.key: (states[row.status], row.dev_score) for row in swept.searched}
    trials = optuna.load_study(study_name=name, storage=storage).trials
    # The driver may have been killed just when it wrote down a configuration, which runs nowhere.
    trials = [trial for trial in trials if "trials" in trial.user_attrs]
    found = {trial.user_attrs["trials"][0]: (trial.state.name, trial.value) for trial in trials}
    assert found == stored
    assert len(trials) == 5


def test_the_same_command_again_runs_nothing(swept: Swept) -> None:
    assert swept.again.code == 0, swept.again.out + swept.again.err
    assert "search, round 1: 0 to run, 5 already in the store" in swept.again.out
    assert "final seeds: 0 to run, 1 already in the store" in swept.again.out
