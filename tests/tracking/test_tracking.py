"""What trackers get of trials, read back from their files; what goes wrong stays with them."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.tracking.trackers import TRACKERS, check
from harness.tracking.tracking import Tracking
from harness.training.progress import Point
from harness.trials.store import Store
from harness.trials.trial import Trial, describe
from tests.sweeping import ONE_AT_A_TIME, one_grid
from tests.tracking.readers import READERS

SETTINGS = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}


@pytest.fixture(params=READERS)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a tracker."""
    for variable in ("WANDB_MODE", "WANDB_PROJECT", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    return str(request.param)


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Trial:
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    given = SETTINGS | {"learning_rate": 3e-4}
    return Trial("simcse", given, 7, "search", searched=("learning_rate",))


def points(first: int, last: int) -> list[Point]:
    """A loss term at every step, and a dev score at every fifth one."""
    found = []
    for step in range(first, last + 1):
        found.append(Point(step=step, stage="main", metric="loss/contrastive", value=1 / step))
        if step % 5 == 0:
            found.append(Point(step=step, stage="main", metric="dev", value=float(step)))
    return found


def attempt(name: str, store: Store, trial: Trial, *parts: list[Point], ends: bool) -> list[str]:
    """A process that hears of these points; what it says."""
    said: list[str] = []
    with Tracking(name, store, "myspace", said.append) as tracking:
        tracking.started(trial)
        for part in parts:
            tracking.progressed(trial, {"points": part})
        if ends:
            tracking.ended(trial, {})
    return said


@pytest.mark.process
@pytest.mark.slow
def test_trial_that_goes_on_is_one_run(name: str, trial: Trial, tmp_path: Path) -> None:
    """The second process repeats the steps since the checkpoint, and another trial is beside it."""
    store, other = Store(tmp_path / "trials"), replace(trial, seed=8)
    assert attempt(name, store, trial, points(1, 4), points(5, 12), ends=False) == []
    store.write(replace(
        describe(trial), dev={"graded-dev": 61.5}, test={"avg": 52.25}, steps=20, wall_seconds=9.0
    ))  # fmt: skip
    assert attempt(name, store, trial, points(1, 15), points(16, 20), ends=True) == []
    assert attempt(name, store, other, points(1, 2), ends=False) == []
    until = time.monotonic() + 60
    while len(runs := READERS[name](store.tracking_folder)) < 2 and time.monotonic() < until:
        time.sleep(0.1)  # wandb's own process writes the file, perhaps later on a busy machine
    assert len(runs) == 2
    run = max(runs, key=lambda each: len(each.values["loss/contrastive"]))
    label = "simcse unsup tiny-bert learning_rate=0.0003 seed 7"
    assert run.name.startswith(label)
    assert run.group == "myspace"
    steps = [step for step, _ in run.values["loss/contrastive"]]
    assert steps == list(range(1, 21))  # none is doubled, and none is missing
    for step, value in run.values["loss/contrastive"]:
        assert value == pytest.approx(1 / step, rel=1e-6)
    assert run.values["dev"] == [(step, float(step)) for step in (5, 10, 15, 20)]
    for metric, value in (("dev.graded-dev", 61.5), ("test.avg", 52.25), ("wall_seconds", 9.0)):
        assert run.scores[metric] == pytest.approx(value)
    assert run.status.lower() == "finished"
    shown = str(run.configuration)
    assert "learning_rate" in shown
    assert "0.0003" in shown


class Broken:
    """A run of a tracker that fails with its first values."""

    identity = "broken"

    def log(self, steps: dict[int, dict[str, float]]) -> None:
        raise ConnectionError("the server is away")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_tracker_that_fails_says_so_once(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRACKERS, "wandb", lambda _: lambda *_: Broken())
    said = attempt("wandb", Store(tmp_path), trial, points(1, 3), points(4, 6), ends=True)
    (sentence,) = said
    assert sentence.startswith("--track wandb: ConnectionError: the server is away; the trials go")


def test_folder_that_cannot_be_written_is_one_sentence(trial: Trial, tmp_path: Path) -> None:
    store = Store(tmp_path / "trials")
    store.tracking_folder.write_text("a file in the way")
    said = attempt("tensorboard", store, trial, points(1, 3), points(4, 6), ends=True)
    assert len(said) == 1
    assert said[0].startswith("--track tensorboard: ")


def test_unknown_tracker_and_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match='no tracker "mlfow"; did you mean "mlflow"'):
        check("mlfow")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"wandb.*pip install 'harness-embeddings\[tracking\]'"):
        check("wandb")


# More than 20 s: a sweep with a Ray, whose worker tracks, and the import of two trackers.
@pytest.mark.process
@pytest.mark.slow
def test_sweep_is_tracked_as_its_records(process: Any, write_plugin: Any, tmp_path: Path) -> None:
    """Every value of the records' histories arrives, and tracking changes no key."""
    plugin, space = write_plugin(tmp_path / "trained.py", "trained"), tmp_path / "tiny.yaml"
    text = one_grid("trained", "fault", ["none", "no fault"])
    fixed = "{sentences: graded-sentences, max_steps: 6, precision: fp32, batch_size: 8}"
    space.write_text(text + f"set: {fixed}\nsearch: {{seeds: [42]}}\n", encoding="utf-8")
    store = Store(tmp_path / "trials")
    answer = process(
        "sweep",
        "--no-local",
        plugin,
        space,
        "--store",
        store.folder,
        "--track",
        "tensorboard",
        *ONE_AT_A_TIME,
    )
    assert answer.code == 0, answer.err
    runs = {each.name[-10:]: each for each in READERS["tensorboard"](store.tracking_folder)}
    records = [store.get(record.key) for record in store.read().records()]
    assert len(records) == len(runs) == 3
    for record in records:
        assert record is not None
        run = runs[record.key[:10]]
        assert run.group == "tiny"
        for point in record.history:
            values = [value for step, value in run.values[point["metric"]] if step == point["step"]]
            assert values == pytest.approx([point["value"]], rel=1e-6)
        assert {"loss/contrastive", "rate/learning_rate", "gradient_norm", "dev"} <= {*run.values}
        for name, score in record.test.items():
            assert run.scores[f"test.{name}"] == pytest.approx(score, rel=1e-6)
    again = process("run", plugin, "--store", store.folder, "--encoder", "tiny-bert",
                    "--set", "suite=graded", "--set", "sentences=graded-sentences",
                    "--set", "max_steps=6", "--set", "batch_size=8", "--set", "precision=fp32",
                    "--track", "mlflow")  # fmt: skip
    assert "Already in the store" in again.out


@pytest.mark.process
def test_nothing_is_imported_when_tracking_is_off() -> None:
    code = (
        "import sys, harness.cli.run, harness.cli.sweep, harness.sweeps.run; "
        "print([n for n in ('wandb', 'mlflow', 'tensorboard') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.strip() == "[]"
