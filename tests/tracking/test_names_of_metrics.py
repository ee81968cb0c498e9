"""Names of users' tasks in MLflow, which takes few characters."""

import re
from pathlib import Path

import pytest

NAMES = ["test.a[b]", "a/b", "..", "é*?", "a_x5b_", "%s {x}", "a_x5f_x5b_"]


@pytest.mark.process  # MLflow asks uname when it is imported
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mlflow_takes_every_name_and_none_is_lost(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name, _validate_param_name

    from harness.tracking.mlflow_runs import valid_name

    shown = valid_name(name)
    _validate_metric_name(shown)
    _validate_param_name(shown)
    assert re.sub(r"_x([0-9a-f]+)_", lambda found: chr(int(found[1], 16)), shown) == name


@pytest.mark.process
@pytest.mark.slow
def test_usual_names_stay() -> None:
    from harness.tracking.mlflow_runs import valid_name

    for name in ("test.sts12", "dev.stsb-dev", "loss", "test.mteb:STS22", "learning_rate"):
        assert valid_name(name) == name


@pytest.mark.process
@pytest.mark.slow
def test_the_database_of_mlflow_is_where_the_path_says(tmp_path: Path) -> None:
    from harness.tracking.mlflow_runs import Mlflow
    from harness.tracking.tracker import About

    folder = tmp_path / "a b?c#d%41 [x]" / "tracking"
    Mlflow(folder).begin(About("k", "label", "a [1] %s", "final", {}), None)
    assert (folder / "mlflow.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["a b?c#d%41 [x]"]
