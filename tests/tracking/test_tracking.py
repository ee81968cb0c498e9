"""Trials in trackers, read back from their files; a tracker's faults stay with it."""

import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.tracking.trackers import TRACKERS, About, check
from harness.tracking.tracking import Tracking
from harness.training.progress import Point
from harness.trials.store import Store
from harness.trials.trial import Trial, describe
from tests.cli.conftest import sets
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
    values = {
        step: {"loss/contrastive": 1 / step} | ({} if step % 5 else {"dev": float(step)})
        for step in range(first, last + 1)
    }
    return [
        Point(step=step, stage="main", metric=metric, value=value)
        for step, metrics in values.items()
        for metric, value in metrics.items()
    ]


def attempt(name: str, store: Store, trial: Trial, *parts: list[Point], ends: bool) -> list[str]:
    """A process that hears of these points; what it says."""
    messages: list[str] = []
    with Tracking(name, store, "myspace", messages.append) as tracking:
        tracking.started(trial)
        for part in parts:
            tracking.progressed(trial, {"points": part})
        if ends:
            tracking.ended(trial, {})
    return messages


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


def test_trial_of_another_process_has_no_second_run(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep gives a trial to a worker, which waits for another process, or has its record."""
    began: list[str] = []
    monkeypatch.setitem(TRACKERS, "wandb", lambda _: lambda about, _: began.append(about.key))
    store = Store(tmp_path)
    store.write(replace(describe(trial), dev={"graded-dev": 61.5}, steps=20))
    with Tracking("wandb", store, "myspace", pytest.fail) as tracking:
        tracking.started(trial)
        tracking.postponed(trial, "another process works on it")
        tracking.started(trial)
        tracking.ended(trial, {"status": "finished", "ran": False})
    assert began == []


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
    """Also one whose folder cannot be written."""
    monkeypatch.setitem(TRACKERS, "wandb", lambda _: lambda *_: Broken())
    parts = points(1, 3), points(4, 6)
    [sentence] = attempt("wandb", Store(tmp_path), trial, *parts, ends=True)
    assert sentence.startswith("--track wandb: ConnectionError: the server is away; the trials go")
    store = Store(tmp_path / "trials")
    store.tracking_folder.write_text("a file in the way")
    [sentence] = attempt("tensorboard", store, trial, *parts, ends=True)
    assert sentence.startswith("--track tensorboard: ")


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
    words = ("--no-local", plugin, space, "--store", store.folder, "--track", "tensorboard")
    answer = process("sweep", *words, *ONE_AT_A_TIME)
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
    values = sets(
        suite="graded", sentences="graded-sentences", max_steps=6, batch_size=8, precision="fp32"
    )
    words = (plugin, "--store", store.folder, "--encoder", "tiny-bert", "--track", "mlflow")
    again = process("run", *words, *values)
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


# Names of users, which trackers read as paths, or keep for themselves


NAMES = ["test.a[b]", "a/b", "..", "é*?", "a_x5b_", "%s {x}", "a_x5f_x5b_", "a\nb"]
GROUPS = ["../../x", "..", "/x", "a [1]*", "run.v2", ".hidden", "new\nline", "日" * 300, "~"]


@pytest.mark.process  # MLflow asks uname when it is imported
@pytest.mark.slow
def test_mlflow_takes_every_name_and_none_is_lost() -> None:
    """Usual names stay, and long ones differ."""
    from mlflow.utils.validation import _validate_metric_name, _validate_param_name

    from harness.tracking.trackers import valid_name

    for name in NAMES:
        shown = valid_name(name)
        _validate_metric_name(shown)
        _validate_param_name(shown)
        assert re.sub(r"_x([0-9a-f]+)_", lambda found: chr(int(found[1], 16)), shown) == name
    for name in ("test.sts12", "dev.stsb-dev", "loss", "test.mteb:STS22", "learning_rate"):
        assert valid_name(name) == name
    names = {valid_name("a" * 300 + end) for end in ("", "b", "[c]")}
    assert len(names) == 3
    for name in names:
        _validate_metric_name(name)


@pytest.mark.process
@pytest.mark.slow
def test_the_database_of_mlflow_is_where_the_path_says(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%41 [x]" / "tracking"
    TRACKERS["mlflow"](folder)(About("k", "label", "a [1] %s", "final", {}), None)
    assert (folder / "mlflow.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["a b?c#d%41 [x]"]


@pytest.mark.parametrize("group", GROUPS)
def test_event_files_stay_in_the_folder_of_the_tracking(group: str, tmp_path: Path) -> None:
    """Neither the name of a sweep nor the note of a stranger's store leads out of it."""
    folder = tmp_path / "a" / "run.v2 [x]" / "tracking"
    about = About("0" * 32, f"{group} label", group, "final", {})
    begin = TRACKERS["tensorboard"](folder)
    first = begin(about, None)
    identities = [first.identity, f"../{group}", f"{folder}/../../{group}"]
    for run in [first, *(begin(about, each) for each in identities)]:
        run.log({1: {"dev": 1.0}})
        run.leave()
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("events.*")]
    assert len(files) == 4
    assert all(path.is_relative_to("a/run.v2 [x]/tracking/tensorboard") for path in files)
    assert {len(path.parts) for path in files} == {7}
    assert not any(part.startswith(".") for path in files for part in path.parts)


@pytest.mark.process
@pytest.mark.slow
def test_wandb_keeps_names_with_an_underscore_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library has values of its own under such names."""
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = TRACKERS["wandb"](tmp_path)(About("0" * 32, "a", "b", "final", {}), None)
    names = ("_step", "_timestamp", "_x", "plain_name")
    run.log({step: dict.fromkeys(names, 7.5 + step) for step in (1, 2)})
    run.end(3, {}, "finished")
    until = time.monotonic() + 60  # the library's own process may still write
    while not (runs := READERS["wandb"](tmp_path)) or runs[0].status != "finished":
        assert time.monotonic() < until, "the run is not written"
        time.sleep(0.1)
    [seen] = runs
    kept = ("metric._step", "metric._timestamp", "metric._x", "plain_name")
    assert seen.values == {name: [(1, 8.5), (2, 9.5)] for name in kept}
