"""Names, paths and `--set KEY=VALUE` of a user are taken literally."""

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.arrays import SharedArrays
from harness.data.hub import EMBEDDED
from harness.errors import Postponed, UserError
from harness.locks import locked, postponing
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.sweeps.spaces.values import read_values
from harness.trials.store import Store
from tests.cli.conftest import Shown

# What a user names is taken literally: models, suites, plugins, stores, mirrors and caches.

SIGNS = [
    "run.v2", "a [1]*", "a?b", "a #b", "a: b", "{x} %s %(y)s", "a,b", "graded,a", "~", "a'b\"c",
    "a\\b", "a&b=c", "-x", "é 日本", "new\nline",
]  # fmt: skip
"""Parts of names that one library or another reads as something else"""
TOGETHER = ["run.v2", "a [1]*? #b: c", "{x} %(y)s,b&c=d", "graded,~'\"\\", "-x é 日本\nline"]
PAIRS = """\
sentence1,sentence2,score
a man plays a guitar,a man plays music,4
a dog runs,a cat sleeps,1
the sea is blue,a train is late,0
a child eats,a child eats an apple,5
a boy reads,a boy sees a book,3
a bird sings,a fish swims,2
"""


@pytest.mark.slow
def test_names_with_signs(tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the working folder, the model, the suite, the store and the cache have signs."""
    scores = []
    for name in ("plain", *TOGETHER):
        folder = tmp_path / f"in {name}"
        model, suite, store = f"./model {name}", f"suite {name}.csv", f"store {name}"
        shutil.copytree(EMBEDDED / "models" / "tiny-bert", folder / model)
        for file in (suite, "other.csv"):
            (folder / file).write_text(PAIRS)
        monkeypatch.setenv("HARNESS_CACHE", str(folder / f"cache {name}"))
        monkeypatch.chdir(folder)
        words = [model, "--suite", f"other.csv,{suite}", "--keep-embeddings", "--store", store]
        shown("eval", *words)
        assert {path.name for path in folder.iterdir()} == {
            *(f"{kind} {name}" for kind in ("model", "cache", "store")),
            f"store {name}-weights", suite, "other.csv",
        }  # fmt: skip
        records = Store(folder / store).read().records()
        scores.append([[*(record.dev | record.test).values()] for record in records])
        assert len(shown("list", "trials", "--store", store).splitlines()) == 2
        table = shown("table", "--store", store, "--format", "csv")
        metrics = {row["metric"] for row in csv.DictReader(io.StringIO(table))}
        assert metrics == {f"suite {name}", "other"}
    assert scores == [scores[0]] * len(scores)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_plugins_with_signs(kind: str, tmp_path: Path, write_plugin: Callable[..., Path]) -> None:
    """Two versions of a plugin have two names; a file is named without its ending."""
    for name in (name for sign in SIGNS for name in (sign, f"{sign}.v3")):
        path = write_plugin(tmp_path / f"{name}.py", "known")
        if kind == "folder":
            (tmp_path / name).mkdir()
            path = path.rename(tmp_path / name / "__init__.py").parent
        assert registry.load(str(path)).name == name
        assert registry.name_of(registry.locate(str(path))) == name


def test_each_folder_of_the_cache_has_a_lock_of_its_own(tmp_path: Path) -> None:
    for name in ("subsets/0.1-0", "artefacts/my.method-v-0", "x/run.v2"):
        arrays = SharedArrays(tmp_path / name, "arrays", dict)
        its_own, beside = (tmp_path / f"{each}.lock" for each in (name, name.rpartition(".")[0]))
        with postponing(), locked(its_own, "these arrays"), pytest.raises(Postponed):
            arrays.read()
        with postponing(), locked(beside, "the arrays of another name"):
            arrays.read()


# `--set KEY=VALUE`: a field of text takes what was typed, a field of numbers a number.


TYPED = "[a].txt {a} *.txt &a !b yes no 1e5 0x10 1_000 2024-01-02 007 ~ 'quoted' %d{} 1:30"
NUMBERS: list[tuple[str, str, object]] = [
    ("learning_rate", "3e-5", 3e-5), ("batch_size", "010", 10), ("batch_size", "8", 8),
    ("max_steps", "null", None), ("max_steps", "5", 5), ("gradient_checkpointing", "no", False),
    ("precision", "fp32", "fp32"),
]  # fmt: skip


def test_a_text_is_taken_as_it_is_typed_and_a_number_is_a_number() -> None:
    """A whole one is written as people do."""
    plugin = registry.load("simcse")
    for text in [*TYPED.split(), "a #b.txt", "a: b.txt", "ends in a space "]:
        values = read_values({"sentences": text, "suite": text}, [plugin])
        assert values == {"sentences": text, "suite": text}
        assert vars(resolve(plugin, values))["sentences"] == text
    for key, text, value in NUMBERS:
        read = read_values({key: text}, [plugin])
        assert vars(resolve(plugin, read))[key] == value
        assert type(read[key]) is type(value)
    for text in ("1e3", "1000.0", "+1000"):
        values = read_values({"max_steps": text}, [plugin])
        assert vars(resolve(plugin, values))["max_steps"] == 1000
    for text in ("0x10", "1:30", "[8]", "8 # eight", "true"):
        with pytest.raises(UserError, match="batch_size"):
            resolve(plugin, read_values({"batch_size": text}, [plugin]))
