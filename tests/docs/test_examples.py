"""The examples of the README and of docs/ work as they are printed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from harness.cli.verbs import VERBS, command
from harness.data.corpora import source
from harness.evaluation.suites import suite
from harness.plugin_check.check import problems
from harness.sweeps.spaces.space import (
    MethodSpace,
    Repeats,
    Sampler,
    Select,
    Space,
    TrainedEncoder,
    load_space,
)
from tests.checkout import CHECKOUT, example, module_of
from tests.mteb_tasks import write_tasks

DOCS = CHECKOUT / "docs"
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in DOCS.glob("*.md"))]


def commands() -> Iterator[tuple[str, list[str]]]:
    """(page, words) of every `harness` command in an indented block, continuation lines joined."""
    for page in PAGES:
        text = (CHECKOUT / page).read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^    (?:\w+=\S+ )?(harness .*)$", text, re.MULTILINE):
            yield page, shlex.split(line, comments=True)[1:]


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", range(3), ids=["32 lines", "a loss of one's own", "two encoders"]
)
def test_the_worked_plugins_keep_the_contract(number: int, tmp_path: Path) -> None:
    path = tmp_path / "worked.py"
    path.write_text(example("docs/plugins.md", "python", number), encoding="utf-8")
    assert problems(str(path)) == []


def test_the_api_of_a_plugin_is_that_of_the_code() -> None:
    page = (DOCS / "plugins.md").read_text(encoding="utf-8")
    tables = module_of("docs/api.py").with_tables(page)
    assert tables == page, "python docs/api.py writes the tables anew"


@pytest.mark.parametrize("part", [Space, MethodSpace, Select, Repeats, TrainedEncoder, Sampler])
def test_every_key_of_a_search_space_is_on_its_page(part: type[BaseModel]) -> None:
    words = set(re.findall(r"\w+", (DOCS / "search-spaces.md").read_text(encoding="utf-8")))
    assert {field.alias or name for name, field in part.model_fields.items()} <= words


def test_the_search_spaces_of_the_docs_are_some(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    for page, methods in (
        ("docs/search-spaces.md", ["simcse", "d2cse", "promptbert", "clsr", "mine"]),
        ("README.md", ["simcse", "methods/mine"]),
    ):
        path.write_text(example(page, "yaml"), encoding="utf-8")
        space, _ = load_space(path)
        assert list(space.methods) == methods
    for number in (1, 2, 3):
        part = example("docs/search-spaces.md", "yaml", number)
        path.write_text("encoders: [bert-base-uncased]\n" + part, encoding="utf-8")
        load_space(path)


def test_the_suites_of_the_evaluation_page_are_some(tmp_path: Path) -> None:
    """A file, and a folder."""
    path = tmp_path / "questions.py"
    path.write_text(example("docs/evaluation.md", "python"), encoding="utf-8")
    assert suite(str(path)).tests == ("questions",)
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, name in enumerate(("queries", "documents", "relevant")):
        text = example("docs/evaluation.md", "csv", number)
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    own_suite = suite(str(folder))
    queries = ["How do I get in without my key?", "When does the library open?"]
    assert own_suite.load(own_suite.tests[0]).queries == queries
    assert own_suite.load(own_suite.dev).gains == [{0: 1}]
    texts = source(f"{folder / 'documents.csv'}?sentence=text")
    assert len(texts.corpus(texts.paths())) == 3


@pytest.mark.slow
def test_the_task_of_the_evaluation_page_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tasks(tmp_path, {"test": [("one", "two", 1.0), ("one", "three", 2.0)]})
    (tmp_path / "pairs").rename(tmp_path / "my-pairs")
    (tmp_path / "mytasks.py").write_text(example("docs/evaluation.md", "python", 1))
    monkeypatch.chdir(tmp_path)
    assert suite("mteb:mytasks.py").tests == ("MyPairs",)


def test_every_command_has_a_verb_and_options_that_exist() -> None:
    found = list(commands())
    assert {words[0] for _, words in found} >= {"sweep", "plan", "table", "eval", "check"}
    for page, (verb, *words) in found:
        assert verb in VERBS, (page, verb)
        known = {name for each in command(verb).params for name in each.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert not given - known, (page, verb)
