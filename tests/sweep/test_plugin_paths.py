"""A search space may name a plugin by its path, from its own folder or from the working one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli.verbs import app
from harness.errors import UserError
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from tests.sweeping import TRAINED

SPACE = """\
suite: graded
select: {metric: graded-dev}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 1, precision: fp32}
methods:
  PATH:
    grid: {width: [4, 8]}
  simcse:
    encoders: [{encoder: tiny-bert, trained_by: simcse}]
"""
Found = Callable[..., list[Search]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plugin and a place for spaces; the working directory is another one."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    elsewhere = tmp_path / "elsewhere"
    for place in (tmp_path / "spaces", elsewhere, tmp_path / "plugins" / "whole"):
        place.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    for file in ("plugins/mine.py", "plugins/whole/__init__.py", "elsewhere/here.py"):
        (tmp_path / file).write_text(f"PAUSE = 0\nREPAIRED = ''\n{TRAINED}", encoding="utf-8")
    return tmp_path


@pytest.fixture
def found(folder: Path) -> Found:
    """found(path of the plugin, method, ...): the searches of a space, narrowed to methods."""

    def load(path: str, *methods: str, text: str = SPACE, **options: Any) -> list[Search]:
        space = folder / "spaces" / "space.yaml"
        space.write_text(text.replace("PATH", path), encoding="utf-8")
        return searches(*load_space(space), Overrides(methods=methods, **options))

    return load


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("../plugins/mine.py", "plugins/mine.py"),
        ("../plugins/whole", "plugins/whole"),
        ("./here.py", "elsewhere/here.py"),
        ("here.py", "elsewhere/here.py"),
    ],
)
def test_a_path_starts_at_the_space_or_at_the_working_directory(
    path: str, file: str, found: Found, folder: Path
) -> None:
    search, _ = found(path)
    assert search.method == str(folder / file)
    assert search.label == f"{Path(file).stem} unsup tiny-bert"
    assert search.searched == ("width",)


def test_the_command_line_names_it_by_its_name_or_by_another_path(
    found: Found, folder: Path
) -> None:
    [by_name] = found("../plugins/mine.py", "mine")
    assert by_name.method == str(folder / "plugins" / "mine.py")
    plugin = (folder / "elsewhere" / "here.py").read_text()
    for place in ("elsewhere/mine.py", "spaces/here.py", "plugins/simcse.py"):
        (folder / place).write_text(plugin)
    [by_path] = found("../plugins/mine.py", "./mine.py")
    assert by_path.method == "./mine.py"
    assert found("./here.py")[0].method == str(folder / "spaces" / "here.py"), "its folder is first"
    with pytest.raises(UserError, match=r'line 8: .*two methods .* called "simcse"'):
        found("../plugins/simcse.py")


def test_it_may_train_an_encoder(found: Found, folder: Path) -> None:
    """Also where the command line leaves it out."""
    text = SPACE.replace("trained_by: simcse", "trained_by: ../plugins/mine.py")
    [simcse] = found("../plugins/mine.py", "simcse", text=text)
    assert simcse.trainers["encoder"].method == str(folder / "plugins" / "mine.py")
    with pytest.raises(UserError, match=r'line 9: .*mime.py"; did you mean "../plugins/mine.py"'):
        found("../plugins/mine.py", text=text.replace("../plugins/mine.py", "../plugins/mime.py"))


@pytest.mark.parametrize(
    ("path", "sentences"),
    [
        ("../plugins/mime.py", ["line 6", 'unknown method "../plugins/mime.py"',
                                'did you mean "../plugins/mine.py"']),
        ("../plugins/hole", ["line 6", 'did you mean "../plugins/whole"']),
        ("../plugins", ["line 6", "holds no method: it has no __init__.py"]),
        ("simcze", ["line 6", 'unknown method "simcze"', 'did you mean "simcse"']),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused_with_its_line(
    path: str, sentences: list[str], found: Found
) -> None:
    with pytest.raises(UserError) as refused:
        found(path)
    for sentence in ["space.yaml", *sentences]:
        assert sentence in str(refused.value)


@pytest.mark.usefixtures("folder")
def test_its_hyperparameters_are_shown_by_its_path() -> None:
    answer = CliRunner().invoke(app, ["show", "../plugins/mine.py"], env={"COLUMNS": "200"})
    assert answer.exit_code == 0, answer.output
    assert "width (int" in answer.stdout
