"""The commands that a sweep names at its end show trials of this sweep."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import PROTOCOL
from harness.report.finished_sweep import next_commands, sweep_groups
from harness.report.quantities import PAPER_COLUMNS
from harness.trials.record import Record
from harness.trials.store import Store

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
STS, GRADED = dict.fromkeys(TASKS, 43.21), {"graded": 43.21}


def final(method: str, encoder: str, test: dict[str, float], seed: int) -> Record:
    dev = {"graded-dev" if "graded" in test else "stsb-dev": 50.0}
    return Record(
        key=f"{seed:032x}", status="finished", role="final", method=method, setting="unsup",
        encoder=encoder, seed=seed, configuration={"learning_rate": 3e-5}, dev_before=40.0, dev=dev,
        test=test, steps=10, versions={}, source_digest="source", data_digest="data",
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
    harness: Callable[..., Any],
) -> None:
    store = Store(tmp_path / "store")
    for seed in (0, 1):
        store.write(final(method, encoder, test, seed))
    trials = store.read(PAPER_COLUMNS).table
    groups = sweep_groups(trials, [f"{seed:032x}" for seed in (0, 1)])
    known = ("simcse", "d2cse")
    first = next_commands(groups, trials, known, store.place)[0]
    _, *words = shlex.split(first.command)
    assert [word for word in words if word in ("--paper", "--encoder")] == options
    answer = harness(*words)
    assert answer.code == 0, answer.err
    assert "43.21" in answer.out
