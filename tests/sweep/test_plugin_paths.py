"""A search space may name a plugin by its path, and give short names to corpora."""

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
Plan = Callable[..., list[Search]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plugin and a place for spaces; the working directory is another one."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    for name in ("spaces", "elsewhere", "plugins/whole"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for file in ("plugins/mine.py", "plugins/whole/__init__.py", "elsewhere/here.py"):
        (tmp_path / file).write_text(f"PAUSE = 0\nREPAIRED = ''\n{TRAINED}", encoding="utf-8")
    return tmp_path


@pytest.fixture
def plan(folder: Path) -> Plan:
    """plan(path of the plugin, method, ...): the searches of a space, narrowed to methods."""

    def load(path: str, *methods: str, text: str = SPACE, **options: Any) -> list[Search]:
        space = folder / "spaces" / "space.yaml"
        space.write_text(text.replace("PATH", path), encoding="utf-8")
        return searches(*load_space(space), Overrides(methods=methods, **options))

    return load


def test_a_path_starts_at_the_space_or_at_the_working_directory(plan: Plan, folder: Path) -> None:
    """The command line names it by its name or by another path."""
    for path, file in {
        "../plugins/mine.py": "plugins/mine.py", "../plugins/whole": "plugins/whole",
        "./here.py": "elsewhere/here.py", "here.py": "elsewhere/here.py",
    }.items():  # fmt: skip
        search, _ = plan(path)
        assert search.method == str(folder / file)
        assert search.label == f"{Path(file).stem} unsup tiny-bert"
        assert search.searched == ("width",)
    [by_name] = plan("../plugins/mine.py", "mine")
    assert by_name.method == str(folder / "plugins" / "mine.py")
    plugin = (folder / "elsewhere" / "here.py").read_text()
    for copy in ("elsewhere/mine.py", "spaces/here.py", "plugins/simcse.py"):
        (folder / copy).write_text(plugin)
    [by_path] = plan("../plugins/mine.py", "./mine.py")
    assert by_path.method == "./mine.py"
    assert plan("./here.py")[0].method == str(folder / "spaces" / "here.py"), "its folder is first"
    with pytest.raises(UserError, match=r'line 8: .*two methods .* called "simcse"'):
        plan("../plugins/simcse.py")
    answer = CliRunner().invoke(app, ["show", "../plugins/mine.py"], env={"COLUMNS": "200"})
    assert answer.exit_code == 0, answer.output
    assert "width (int" in answer.stdout


def test_it_may_train_an_encoder(plan: Plan, folder: Path) -> None:
    """Also where the command line leaves it out."""
    text = SPACE.replace("trained_by: simcse", "trained_by: ../plugins/mine.py")
    [simcse] = plan("../plugins/mine.py", "simcse", text=text)
    assert simcse.trainers["encoder"].method == str(folder / "plugins" / "mine.py")
    with pytest.raises(UserError, match=r'line 9: .*mime.py"; did you mean "../plugins/mine.py"'):
        plan("../plugins/mine.py", text=text.replace("../plugins/mine.py", "../plugins/mime.py"))


def test_what_is_not_there_is_refused_with_its_line(plan: Plan) -> None:
    for path, *sentences in (
        ("../plugins/mime.py", 'unknown method "../plugins/mime.py"',
         'did you mean "../plugins/mine.py"'),
        ("../plugins/hole", 'did you mean "../plugins/whole"'),
        ("../plugins", "holds no method: it has no __init__.py"),
        ("simcze", 'unknown method "simcze"', 'did you mean "simcse"'),
    ):  # fmt: skip
        with pytest.raises(UserError) as refused:
            plan(path)
        for sentence in ("space.yaml", "line 6", *sentences):
            assert sentence in str(refused.value)


NAMED = """\
suite: graded
select: {metric: dev}
encoders: [tiny-bert]
corpora:
  mine:
    data: FILE
    columns: {sentence: text a}
    where: {year: [2012, 2013]}
    limit: 2
methods:
  simcse:
    set: {sentences: mine}
    variants: {ours: , theirs: {temperature: 0.1}}
  esimcse:
    grid: {sentences: [graded-sentences, mine]}
"""


def test_a_name_stands_for_the_same_corpus_in_all_trials(searches_of: Plan, tmp_path: Path) -> None:
    """The command line knows it, too; what is wrong is said with its line."""
    rows = "".join(f'{{"text a": "row {n}", "year": {2012 + n}}}\n' for n in range(4))
    (tmp_path / "rows.jsonl").write_text(rows)
    text = NAMED.replace("FILE", str(tmp_path / "rows.jsonl"))
    whole = f"{tmp_path}/rows.jsonl?sentence=text%20a&where.year=2012&where.year=2013&limit=2"
    one, two, grid = searches_of(text)
    assert one.fixed["sentences"] == two.fixed["sentences"] == whole
    assert grid.rounds[0]["sentences"] == ["graded-sentences", whole]
    assert one.declared.items("contrastive") == 2
    (alone,) = searches_of(text, methods=("esimcse",), values={"sentences": "mine"})
    assert alone.fixed["sentences"] == whole
    for old, new, message in (
        ("  mine:", "  wiki1m:", "line 5: corpora.wiki1m: this is the name of a corpus that comes"),
        ("{sentence: text a}", "{sentense: text a}", "line 7: corpora.mine.columns: unknown role"),
        ("limit: 2", "limit: none", "line 9: corpora.mine.limit: "),
        ("limit: 2", "most: 2", "line 9: corpora.mine.most: unknown key; valid: columns, data"),
        ("sentences: mine}", "sentences: mien}", 'unknown corpus "mien"'),
    ):
        with pytest.raises(UserError) as error:
            searches_of(text.replace(old, new))
        assert message in str(error.value)
