"""Searches whose trials are played and not run: no Ray, no training, real studies and stores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.sweep.searching.study import Study
from harness.sweep.searching.suggestions import Suggestions
from harness.sweep.spaces.overrides import Overrides, searches
from harness.sweep.spaces.search import Search
from harness.sweep.spaces.space import load_space
from harness.trials.store import Store
from harness.trials.trial import Trial, describe

HEAD = """\
suite: graded
select: {metric: graded-dev}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 8, evaluation_interval: 2, batch_size: 8}
"""


class Killed(Exception):
    """The driver of a played sweep ends without a word."""


@dataclass
class Played:
    """What happened in a played sweep."""

    ran: list[Trial] = field(default_factory=list)
    """The trials that ran, in the order in which they ended"""
    stopped: dict[float, int] = field(default_factory=dict)
    """Learning rate of a trial that was pruned -> the evaluation after which it ended"""

    @property
    def rates(self) -> list[float]:
        """The learning rates of the trials."""
        return [trial.configuration["learning_rate"] for trial in self.ran]


Curve = Callable[[Trial], list[float]]


def play(source: Suggestions, curve: Curve, *, kill_after: int | None = None) -> Played:
    """Run a source's trials one after the other, each with the dev curve that `curve` gives.

    An empty curve is a failure. `kill_after`: the number of trials after which the driver is
    killed, in the middle of the next one, after its first evaluation.
    """
    played = Played()
    while not source.exhausted:
        for key, trial in source.more().items():
            points, done = curve(trial), 0
            for number, score in enumerate(points, 1):
                done = number
                steps = {"step": 2 * number, "total_steps": 2 * len(points)}
                report = {**steps, "evaluation": number, "best_dev": score}
                stops = source.progressed(key, report)
                if kill_after == len(played.ran):
                    raise Killed
                if stops:
                    played.stopped[trial.configuration["learning_rate"]] = number
                    break
            played.ran.append(trial)
            _end(source, key, trial, points[:done], pruned=done < len(points))
    return played


def _end(source: Suggestions, key: str, trial: Trial, points: list[float], *, pruned: bool) -> None:
    """Store the record of a trial as a worker does, and inform the source."""
    status = "pruned" if pruned else "finished" if points else "failed"
    dev = max(points, default=None)
    history = [
        {"step": 2 * number, "stage": "contrastive", "metric": "dev", "value": value}
        for number, value in enumerate(points, 1)
    ]
    record = replace(
        describe(trial),
        status=status,
        dev={} if dev is None else {"graded-dev": dev},
        history=history,
        training_seconds=float(trial.configuration.get("max_steps", 8)),
        wall_seconds=3600.0,
    )
    source.store.write(record)
    report: Mapping[str, Any] = {
        "status": status,
        "dev": dev,
        "cost": record.training_seconds,
        "seconds": record.wall_seconds,
    }
    source.ended(key, report)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def search_of(tmp_path: Path) -> Callable[..., Search]:
    """search_of(part of the method, line of the space, ..., field=value): a search with SimCSE.

    The values are those that the command line sets.
    """

    def make(part: str, *lines: str, **values: Any) -> Search:
        text = HEAD + "".join(f"{line}\n" for line in lines) + f"methods:\n  simcse:\n{part}"
        for line in lines:
            if line.startswith("select"):
                text = text.replace("select: {metric: graded-dev}\n", "")
        path = tmp_path / "space.yaml"
        path.write_text(text, encoding="utf-8")
        [search] = searches(*load_space(path), Overrides(values=values))
        return search

    return make


@pytest.fixture
def source_of(store: Store) -> Callable[..., Suggestions]:
    """source_of(search, configurations at a time): a source on the study on disk.

    Every call is what a new process finds there.
    """

    def make(search: Search, at_a_time: int = 1) -> Suggestions:
        listed = search.configurations(0, []) if search.rounds else None
        source = Suggestions(search, Study(search, store), store, listed)
        source.at_a_time = at_a_time
        return source

    return make
