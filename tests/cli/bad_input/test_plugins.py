"""Plugins and suites that cannot be used, or whose declarations are of the wrong kind."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Refused, SpaceFile

pytestmark = pytest.mark.slow

PLUGIN = """\
from pathlib import Path
from typing import ClassVar

from harness import plugin
from harness.plugin import Artefact, Optimisation, Selection, Stage


class Config(plugin.TrainingConfig):
    encoder: str = "tiny-bert"
    suite: str = "graded"
    sentences: str = "graded-sentences"
    # fields


def stage(**values):
    return Stage("s", **({"trains": {"*": "learning_rate"}, "streams": {"s": 8},
                          "losses": {"s": 1.0}} | values))


class Method(plugin.Method[Config]):
    @classmethod
    def corpora(cls, config):
        return {"s": config.sentences}

    @classmethod
    def stages(cls, config):
        return [config.stage("s")]

    # more
"""


def declared(name: str, value: str) -> str:
    """The plugin with one more class method, which returns `value`."""
    method = f"    @classmethod\n    def {name}(cls, config):\n        return {value}\n"
    return PLUGIN.replace("    # more\n", method)


@pytest.fixture
def refused_plugin(refused: Refused, tmp_path: Path) -> Callable[..., None]:
    """refused_plugin(source, part, ...): check that `harness run` refuses the plugin."""
    numbers = itertools.count()

    def call(source: str, *parts: str) -> None:
        path = tmp_path / f"mine{next(numbers)}.py"  # a plugin is imported once
        path.write_text(source, encoding="utf-8")
        refused(["run", path, "--set", "max_steps=2"], "mine", *parts)

    return call


FIELDS = [
    ("published: ClassVar = 3", "AttributeError"),
    ("dependent_defaults = classmethod(lambda cls, given: 1 / 0)", "ZeroDivisionError"),
    ("needed: int", ": needed: Field required"),
    ("sentences: str = 3", "sentences = 3"),
    ("rate: float = float('nan')", "rate = nan"),
    ("rate: int = 2**70", "beyond 64 bits"),
]


def test_config_type(refused_plugin: Refused) -> None:
    for value in ("3", "None", "dict", "'Config'", "Config()", "lambda: Config"):
        source = PLUGIN.replace("    # more\n", f"    config_type = {value}\n")
        refused_plugin(source, "config_type of class Method must be a class that derives from")
    for field, part in FIELDS:
        refused_plugin(PLUGIN.replace("# fields", field), part)


ANSWERS = {
    "stages": ("None", "3", "'s'", "{}", "[3]", "['s']", "[None]", "stage()", "(stage(),)",
               "[[stage()]]", "iter([])"),
    "corpora": ("None", "[]", "3", "{3: 'a'}", "{'s': None}", "{'s': Path('graded-sentences')}"),
    "models": ("None", "3", "'tiny-bert'", "[3]", "{}"),
    "files": ("None", "'x'", "['x']", "Path('x')"),
    "artefacts": ("None", "3", "[3]", "{}"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_of_another_kind(name: str, refused_plugin: Refused) -> None:
    for value in ANSWERS[name]:
        refused_plugin(declared(name, value), f"{name}() must return a ", "but it returned")
    errors = {"1 / 0": "ZeroDivisionError", "config.nosuch": "nosuch", "exit(3)": "SystemExit: 3"}
    for value, part in errors.items() if name in ("stages", "files") else ():
        refused_plugin(declared(name, value), f"{name}() raises", part)


def test_plan_refuses_a_plugin(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(declared("stages", "[3]"), encoding="utf-8")
    for verb in ("plan", "sweep"):
        refused([verb, path, space("  simcse:", "  mine:")], "method mine: stages() must return")


STAGES = [
    ("streams={}", "streams"),
    ("streams={'s': 0}", "streams.s = 0"),
    ("streams={'s': '8'}", "streams.s = '8'"),
    ("streams={'other': 8}", 'the stream "other"'),
    ("losses={'s': 'b'}", "losses.s"),
    ("losses={'s': float('nan')}", "losses.s"),
    ("trains={'*': 3}", "trains.* = 3"),
    ("trains={'*': 'learning_rat'}", 'did you mean "learning_rate"?'),
    ("epochs=None", "without an end"),
    ("epochs=0", "epochs = 0"),
    ("epochs=float('inf')", "epochs = inf"),
    ("max_steps=1.5", "max_steps = 1.5"),
    ("accumulation=0", "accumulation = 0"),
    ("moves=('head.*')", "moves = 'head.*'"),
    ("shared=('epochs')", "shared = 'epochs'"),
    ("shared=('epoch',)", 'did you mean "epochs"?'),
    ("batches=True", "batches = True"),
    ("optimisation=Optimisation('sgd')", "optimisation.optimiser = 'sgd'"),
    ("selection=Selection('first')", "selection.keep = 'first'"),
    ("selection=Selection(evaluation_interval=0)", "selection.evaluation_interval = 0"),
]


def test_field_of_a_stage(refused_plugin: Refused) -> None:
    for fields, part in STAGES:
        refused_plugin(declared("stages", f"[stage({fields})]"), 'stage "s"', part)


def test_a_text_in_the_place_of_a_list(refused_plugin: Refused) -> None:
    stages = "[config.stage('s', trains='encoder.*')]"
    refused_plugin(declared("stages", stages), "trains is a list of patterns")
    for fields, part in (
        ("('sentences')", "fields = 'sentences'"),
        ("('sentence',)", 'did you mean "sentences"?'),
        ("(), models=('tiny-bert')", "models = 'tiny-bert'"),
    ):
        artefact = declared("artefacts", f"[Artefact('a', {fields}, build=dict)]")
        refused_plugin(artefact, 'artefact "a"', part)


def test_two_stages_of_one_name(refused_plugin: Refused) -> None:
    refused_plugin(declared("stages", "[stage(), stage()]"), "gives one name to several", "s, s")


def test_names_of_methods(
    refused: Refused, space: SpaceFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = 'unknown method "simcze"', 'did you mean "simcse"?'
    (tmp_path / "tension.py").touch()
    near = tmp_path / "tensoin.py", f'did you mean "{tmp_path}/tension.py"?'
    refused(["check", near[0]], *near)
    for words in (["run"], ["check"], ["sweep", space()], ["plan", space()]):
        refused([words[0], "simcze", *words[1:]], *unknown)
    refused(["sweep", "pooling", space()], 'no method "pooling"', "simcse")
    (tmp_path / "empty").mkdir()
    refused(["run", tmp_path / "empty"], tmp_path / "empty", "holds no method", "__init__.py")
    monkeypatch.chdir(tmp_path)  # such as a folder with an exported model
    (tmp_path / "simcse").mkdir()
    refused(["run", "simcse", "--set", "temperatur=1"], 'did you mean "temperature"')
    refused(["run", "./simcse"], "./simcse holds no method")
    (tmp_path / "notes.txt").write_text("text")
    refused(["check", tmp_path / "notes.txt"], "notes.txt", "not a Python file")


def test_source(refused_plugin: Refused) -> None:
    for source in (
        "raise ValueError('a\\nb\\nc')\n",
        "raise ValueError('x' * 100_000)\n",
        "x = 1\0\n",
        "def f(): f()\nf()\n",
        "def Method(): pass\n",
    ):
        refused_plugin(source)
    for source, *parts in (
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such"),
        ("def broken(:\n", "SyntaxError"),
        ("raise RuntimeError('of no use')\n", "RuntimeError: of no use"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7"),
    ):
        refused_plugin(source, "fails to import", *parts)
    no_class = PLUGIN.replace("class Method", "class Methods")
    for source in ("", no_class, "Method = 3\n", "from harness.plugin import Method\n"):
        refused_plugin(source, "holds no method", "class Method")


SUITE = """\
from pathlib import Path

from harness.evaluation.suites import Scores, SuiteCard, register


class Data:
    texts = ["a b", "c d", "e f"]


CARD = SuiteCard("mine", dev_tasks=("mine-dev",))
DATA = {"mine": Data, "mine-dev": Data}
FILES = list
# changes


@register(CARD, data=DATA, files=FILES)
def score(task, data, vectors):
    return Scores({task: 1.0})
"""


CHANGES = [
    *(f"DATA = {value}" for value in ("None", "3", "[]", "{}", "Data", "{3: Data}")),
    *(f"DATA = {{'mine': {value}}}" for value in ("3", "Data")),
    *(f"DATA = dict.fromkeys(DATA, lambda: {value})" for value in
      ("3", "None", "1 / 0", "['a b']")),
    *(f"Data.texts = {value}" for value in ("None", "'abc'", "[]", "[1]")),
    *(f"FILES = {value}" for value in ("None", "3", "[]", "lambda: None", "lambda: ['x']")),
    *(f"FILES = lambda: {value}" for value in ("1 / 0", "[Path('nosuch')]", "[Path('.')]")),
    *(f"CARD = {value}" for value in ("3", "None", "''", "'sts'", "SuiteCard(3)")),
    *(f"CARD = SuiteCard('mine', {value})" for value in (
        "dev_tasks=3", "dev_tasks='mine-dev'", "dev_tasks=('nosuch',)", "headings=3",
        "dev_tasks=('mine-dev',), decimals='3'")),
    "raise RuntimeError('of no use')", "import sys; sys.exit(3)", "def (",
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_suite(change: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "suite.py"
    path.write_text(SUITE.replace("# changes", change), encoding="utf-8")
    run = ["run", "simcse", "--encoder", "tiny-bert", "--set", "sentences=graded-sentences"]
    refused(["eval", "tiny-bert", "--suite", path])
    refused([*run, "--set", f"suite={path}"])
