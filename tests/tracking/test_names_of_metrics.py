"""Names of users in trackers, which read some of them as paths, or keep them for themselves."""

import re
import time
from pathlib import Path

import pytest

from harness.tracking.trackers import TRACKERS, About
from tests.tracking.readers import READERS

NAMES = ["test.a[b]", "a/b", "..", "é*?", "a_x5b_", "%s {x}", "a_x5f_x5b_", "a\nb"]
GROUPS = ["../../x", "..", "/x", "a [1]*", "run.v2", ".hidden", "new\nline", "日" * 300, "~"]


@pytest.mark.process  # MLflow asks uname when it is imported
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mlflow_takes_every_name_and_none_is_lost(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name, _validate_param_name

    from harness.tracking.trackers import valid_name

    shown = valid_name(name)
    _validate_metric_name(shown)
    _validate_param_name(shown)
    assert re.sub(r"_x([0-9a-f]+)_", lambda found: chr(int(found[1], 16)), shown) == name


@pytest.mark.process
@pytest.mark.slow
def test_usual_names_stay() -> None:
    from harness.tracking.trackers import valid_name

    for name in ("test.sts12", "dev.stsb-dev", "loss", "test.mteb:STS22", "learning_rate"):
        assert valid_name(name) == name


@pytest.mark.process
@pytest.mark.slow
def test_the_database_of_mlflow_is_where_the_path_says(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%41 [x]" / "tracking"
    TRACKERS["mlflow"](folder)(About("k", "label", "a [1] %s", "final", {}), None)
    assert (folder / "mlflow.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["a b?c#d%41 [x]"]


@pytest.mark.process
@pytest.mark.slow
def test_long_names_are_taken_and_differ() -> None:
    from mlflow.utils.validation import _validate_metric_name

    from harness.tracking.trackers import valid_name

    names = {valid_name("a" * 300 + end) for end in ("", "b", "[c]")}
    assert len(names) == 3
    for name in names:
        _validate_metric_name(name)


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
