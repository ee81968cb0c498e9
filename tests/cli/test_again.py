"""The command that a record prints runs the same trial again, and shown values have four digits."""

import random
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import PROTOCOL
from harness.cli import options
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.finished_sweep import next_commands, sweep_groups
from harness.report.quantities import PAPER_COLUMNS
from harness.sweeps.spaces.values import read_values
from harness.trials.record import four_digits
from harness.trials.run_again import run_command
from harness.trials.store import Store
from harness.trials.trial import Trial, describe
from tests.cli.conftest import Shown
from tests.trials.test_store import record

# The command that a record prints runs the same trial again.


PRINTED: list[tuple[str, dict[str, Any]]] = [
    ("dcpcse", {}),  # its template has a colon and a brace, which YAML reads as a mapping
    ("dcpcse", {"template": 'He said "{s}" # [MASK]', "mlm": True, "learning_rate": 1e-5}),
    ("promptbert", {"template": "{s} : [MASK]", "second_template": "no, '{s}' [MASK]"}),
    ("simcse", {"sentences": "1e3", "triplets": "null"}),
    ("glove", {"vectors": Path("my vectors.txt")}),
]


def test_the_printed_configuration_is_read_back_as_it_was() -> None:
    for method, values in PRINTED:
        plugin = registry.load(method)
        config = resolve(plugin, values)
        row = record(
            0, method=method, setting=config.setting, encoder=config.encoder,
            configuration=config.model_dump(mode="json"),
        )  # fmt: skip
        read = read_values(options.set_values(options_of(run_command(row, method))), [plugin])
        assert resolve(plugin, {**read, "encoder": config.encoder}) == config


def options_of(command: str) -> list[str]:
    """The values behind the options `--set` of a command."""
    words = shlex.split(command)
    return [words[place + 1] for place, word in enumerate(words) if word == "--set"]


# Values are shown with four significant digits; the command that runs a trial again has all.

RATES = (2.3490281734511093e-05, 2.3490281734511e-05, 0.00031415926535897931)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a search and a final trial for each rate."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    store = Store(tmp_path / "store")
    values = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
    scores: dict[str, Any] = {"selected_by": "graded-dev", "dev": {"graded-dev": 50.0}}
    for rate in RATES:
        trial = Trial("simcse", {**values, "learning_rate": rate}, 0, "final", "s")
        for role, test in (("search", {}), ("final", {"graded": 40.0})):
            row = describe(replace(trial, role=role))
            store.write(replace(row, status="finished", **scores, test=test))
    return store


def test_lists_and_tables_have_four_digits(store: Store, shown: Shown) -> None:
    """Rows that differ in later digits have all of them."""
    for value, text in (
        (2.34902817e-05, "2.349e-05"), (3e-5, "3e-05"), (0.05, "0.05"), (12, "12"),
        (12345, "12345"), (True, "True"), ("mean", "mean"), (1234.567, "1235"),
        ([0.123456], "[0.123456]"),
    ):  # fmt: skip
        assert four_digits(value) == text
    listed = shown("list", "trials", "--store", store.folder)
    assert "learning_rate=0.0003142 " in listed
    assert "learning_rate=2.349e-05 " in listed
    table = shown("table", "--store", store.folder)
    for rate in ("0.0003142", *RATES[:2]):
        assert f"learning_rate={rate} " in table


@pytest.mark.slow
def test_the_command_runs_the_same_trial_again(store: Store) -> None:
    """The command has the value bit by bit, also through YAML, which reads `1e-05` as a text."""
    row = store.read().records()[0]
    for value in [*RATES, 1e-05, *(random.Random(0).uniform(1e-6, 1e-4) for _ in range(200))]:
        changed = replace(row, configuration={**row.configuration, "learning_rate": value})
        values = options.set_values(options_of(run_command(changed, None)))
        trial = Trial("simcse", {**values, "encoder": "tiny-bert"}, 0)
        assert trial.config.model_dump()["learning_rate"] == value


# The commands that a sweep names at its end show trials of this sweep.

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
STS, GRADED = dict.fromkeys(TASKS, 43.21), {"graded": 43.21}


@pytest.mark.parametrize(
    ("method", "encoder", "test", "options"),
    [
        ("simcse", "bert-base-uncased", STS, ["--paper"]),
        ("simcse", "mini-bert", STS, ["--paper", "--encoder"]),
        ("d2cse", "tiny-bert", GRADED, []),  # no paper measures graded pairs
        ("mine.py", "bert-base-uncased", STS, []),
    ],
)
def test_the_first_command_shows_the_scores_of_the_sweep(
    method: str, encoder: str, test: Any, options: list[str], tmp_path: Path, shown: Shown
) -> None:
    store, dev = Store(tmp_path / "store"), "graded-dev" if "graded" in test else "stsb-dev"
    for seed in (0, 1):
        store.write(record(
            seed, method=method, encoder=encoder, configuration={"learning_rate": 3e-5},
            dev={dev: 50.0}, dev_before=40.0, test=test, versions={}, source_digest="source",
            data_digest="data", model_digest="model", protocol=PROTOCOL, selected_by=dev,
            suite="graded" if "graded" in test else "sts",
        ))  # fmt: skip
    trials = store.read(PAPER_COLUMNS).table
    groups = sweep_groups(trials, [f"{seed:032x}" for seed in (0, 1)])
    _, command = next_commands(groups, trials, ("simcse", "d2cse"), store.place)[0]
    _, *words = shlex.split(command)
    assert [word for word in words if word in ("--paper", "--encoder")] == options
    assert "43.21" in shown(*words)
