"""Verbs that print, and refusals of wrong names and values, import nothing heavy.

Each runs in a new Python, whose `sys.modules` is looked at when it ends.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from harness.cli.verbs import VERBS
from harness.trials.store import Store
from tests.cli.conftest import REPOSITORY, Swept

pytestmark = pytest.mark.process
HEAVY = {
    "datasets", "deepspeed", "matplotlib", "mteb", "obstore", "optuna", "pandas", "ray", "scipy",
    "sentence_transformers", "sklearn", "tokenizers", "torch", "transformers",
}  # fmt: skip
PROGRAM = """
import atexit, sys
atexit.register(lambda: print("imported", *sys.modules))
from harness.cli import main
main()
"""


def run(*arguments: object, cache: Path) -> tuple[int, str, set[str]]:
    """The exit code of a command, what it printed, and the modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False, cwd=REPOSITORY,
        env={**os.environ, "HARNESS_CACHE": str(cache)},
    )  # fmt: skip
    out, _, modules = done.stdout.rpartition("imported ")
    return done.returncode, out + done.stderr, set(modules.split())


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("--help", "sweep"),
        ("sweep --help", "--dry-run"),
        ("--version", f"torch {version('torch')}"),
        ("list methods", "SimCSE"),
        ("list papers", "diffaug"),
        ("list suites", "transfer-senteval"),
        ("list spaces", "quickstart"),
        ("list corpora", "wiki1m"),
        ("show diffcse", "masking_ratio"),
        ("plan d2cse unsup", "trials to run"),
        ("plan flow whitening unsup", "trials to run"),
        ("sweep --paper diffaug --table 1 --dry-run", "trials to run"),
        ("run simcse --set learning_rat=1", "learning_rate"),
        ("run simcse --set learning_rate=-1", "greater than 0"),
        ("run simcsee", "simcse"),
        ("swep", "sweep"),
        ("sweep simcse unsupp", "unsup"),
        ("sweep simcse unsup --encoder no/such --dry-run", "Not here yet"),
        ("eval --no-such", "No such option"),
    ],
)
def test_nothing_heavy(arguments: str, shown: str, cache: Path) -> None:
    words = arguments.split()
    _, printed, imported = run(*words, cache=cache)
    assert shown in printed
    assert not imported & HEAVY
    if words[0] not in VERBS:
        assert not imported & {f"harness.cli.{module}" for module in VERBS.values()}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("plan simcse unsupp", "unsup"),
        ("table --paper difaug", "diffaug"),
        ("report --paper difaug --out none", "diffaug"),
        ("figure --paper difaug --figure 4", "diffaug"),
        ("eval no_such", "was not found"),
        ("compare no_such tiny-bert --store no/store", "was not found"),
    ],
)
def test_a_wrong_name_imports_nothing_that_counts(arguments: str, shown: str, cache: Path) -> None:
    code, printed, imported = run(*arguments.split(), cache=cache)
    assert code == 2
    assert shown in printed
    assert not imported & {*HEAVY, "numpy", "pyarrow"}


def test_nothing_heavy_over_a_store(swept: Swept, cache: Path, tmp_path: Path) -> None:
    key = min(Store(swept.store).finished_keys())
    for command in (
        ("list", "trials", "--store", swept.store),
        ("show", key, "--store", swept.store),
        ("logs", key, "--store", swept.store),
        ("table", "--store", swept.store),
        ("table", "--paper", "diffaug", "--store", swept.store),
        ("compare", "1", "1", "--store", swept.store),
        ("compare", "simcse", "simcse", "--store", swept.store),
        ("sweep", swept.space, "--store", swept.store),
        ("merge", swept.store, "--into", tmp_path / "merged"),
        ("publish", swept.store, tmp_path / "published"),
        ("clean", "--dry-run", "--store", swept.store),
        ("reproduce", "diffaug", "--table", "1", "--dry-run", "--store", swept.store),
    ):
        code, printed, imported = run(*command, cache=cache)
        assert code == 0 or "has no log" in printed, printed
        assert not imported & HEAVY, command
