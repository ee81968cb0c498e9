"""The command that a record prints runs the same trial again, and shown values have four digits."""

import random
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import PROTOCOL
from harness.cli import options
from harness.cli.options import set_values
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.finished_sweep import next_commands, sweep_groups
from harness.report.quantities import PAPER_COLUMNS
from harness.sweeps.spaces.values import read_values
from harness.trials.record import Record, four_digits
from harness.trials.run_again import run_command
from harness.trials.store import Store
from harness.trials.trial import Trial, describe
from tests.cli.conftest import Shown
from tests.trials.test_store import record

# The command that a record prints runs the same trial again.


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("dcpcse", {}),  # its template has a colon and a brace, which YAML reads as a mapping
        ("dcpcse", {"template": 'He said "{s}" # [MASK]', "mlm": True, "learning_rate": 1e-5}),
        ("promptbert", {"template": "{s} : [MASK]", "second_template": "no, '{s}' [MASK]"}),
        ("simcse", {"sentences": "1e3", "triplets": "null"}),
    ],
)
def test_the_printed_configuration_is_read_back_as_it_was(
    method: str, values: dict[str, Any]
) -> None:
    config = resolve(registry.load(method), values)
    record = Record(
        key="1" * 32,
        status="finished",
        role="final",
        method=method,
        setting=config.setting,
        encoder=config.encoder,
        seed=0,
        configuration=config.model_dump(mode="json"),
    )
    words = shlex.split(run_command(record, method))
    given = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    read = read_values(options.set_values(given), [registry.load(method)])
    assert resolve(registry.load(method), {**read, "encoder": config.encoder}) == config


# Values are shown with four significant digits; the command that runs a trial again has all.

RATES = (2.3490281734511093e-05, 2.3490281734511e-05, 0.00031415926535897931)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a search and a final trial for each rate."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    found = Store(tmp_path / "store")
    for rate in RATES:
        values = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
        trial = Trial("simcse", {**values, "learning_rate": rate}, 0, "final", "s")
        for role in ("search", "final"):
            record = describe(replace(trial, role=role))
            scores = {"selected_by": "graded-dev", "dev": {"graded-dev": 50.0}}
            tests = {"test": {"graded": 40.0}} if role == "final" else {}
            found.write(replace(record, status="finished", **scores, **tests))
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.34902817e-05, "2.349e-05"), (3e-5, "3e-05"), (0.05, "0.05"), (12, "12"), (12345, "12345"),
     (True, "True"), ("mean", "mean"), (1234.567, "1235"), ([0.123456], "[0.123456]")],
)  # fmt: skip
def test_four_digits(value: object, text: str) -> None:
    assert four_digits(value) == text


def test_lists_and_tables_have_four_digits(store: Store, shown: Shown) -> None:
    listed = shown("list", "trials", "--store", store.folder)
    assert "learning_rate=0.0003142 " in listed
    assert "learning_rate=2.349e-05 " in listed
    table = shown("table", "--store", store.folder)
    assert "learning_rate=0.0003142 " in table


def test_rows_that_differ_in_later_digits_have_all_of_them(store: Store, shown: Shown) -> None:
    table = shown("table", "--store", store.folder)
    for rate in RATES[:2]:
        assert f"learning_rate={rate} " in table


@pytest.mark.slow
def test_the_command_runs_the_same_trial_again(store: Store) -> None:
    """It gives the value bit by bit, also through YAML, which reads `1e-05` as a text."""
    values = [*RATES, 1e-05, *(random.Random(0).uniform(1e-6, 1e-4) for _ in range(200))]
    record = store.read().records()[0]
    for value in values:
        changed = replace(record, configuration={**record.configuration, "learning_rate": value})
        words = shlex.split(run_command(changed, None))
        given = [words[n + 1] for n, word in enumerate(words) if word == "--set"]
        trial = Trial("simcse", {**set_values(given), "encoder": "tiny-bert"}, 0)
        assert trial.config.model_dump()["learning_rate"] == value


# The commands that a sweep names at its end show trials of this sweep.

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
STS, GRADED = dict.fromkeys(TASKS, 43.21), {"graded": 43.21}


def final(method: str, encoder: str, test: dict[str, float], seed: int) -> Record:
    dev = {"graded-dev" if "graded" in test else "stsb-dev": 50.0}
    return record(
        seed, method=method, encoder=encoder, configuration={"learning_rate": 3e-5}, dev=dev,
        dev_before=40.0, test=test, versions={}, source_digest="source", data_digest="data",
        model_digest="model", protocol=PROTOCOL, selected_by=next(iter(dev)),
        suite="graded" if "graded" in test else "sts",
    )  # fmt: skip


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
    method: str,
    encoder: str,
    test: dict[str, float],
    options: list[str],
    tmp_path: Path,
    shown: Shown,
) -> None:
    store = Store(tmp_path / "store")
    for seed in (0, 1):
        store.write(final(method, encoder, test, seed))
    trials = store.read(PAPER_COLUMNS).table
    groups = sweep_groups(trials, [f"{seed:032x}" for seed in (0, 1)])
    known = ("simcse", "d2cse")
    _, command = next_commands(groups, trials, known, store.place)[0]
    _, *words = shlex.split(command)
    assert [word for word in words if word in ("--paper", "--encoder")] == options
    out = shown(*words)
    assert "43.21" in out
