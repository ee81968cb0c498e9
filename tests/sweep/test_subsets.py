"""Label subsets are repeated like seeds, where only a share of the labels is used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.sweeps.spaces.search import Search
from harness.trials.store import Store

SPACE = """\
suite: graded
select: {metric: graded-dev}
search: {seeds: [42], subsets: [0, 1]}
final: {seeds: [0, 1], subsets: [0, 2]}
encoders: [tiny-bert]
set: {sentences: graded-triplets, max_steps: 2, batch_size: 8, precision: fp32, label_fraction: 0.5}
methods:
  gridded:
    grid: {learning_rate: [0.001, 0.01]}
  sampled:
    ranges: {learning_rate: {low: 0.001, high: 0.1, log: true}}
    sampler: {configurations: 2}
"""
FULL = [(subset, seed) for subset in (0, 2) for seed in (0, 1)]


Find = Callable[..., Search]


@pytest.fixture
def folder(tmp_path: Path, write_plugin: Callable[..., Path]) -> Path:
    """The folder of the plugins."""
    for name in ("gridded", "sampled"):
        write_plugin(tmp_path / f"{name}.py", "trained")
    write_plugin(tmp_path / "still.py", "known")
    return tmp_path


@pytest.fixture
def search(folder: Path, searches_of: Callable[..., list[Search]]) -> Find:
    """search(method, space, option=value, ...): the search of one method."""

    def find(method: str = "gridded", text: str = SPACE, **options: Any) -> Search:
        [one] = searches_of(text, methods=(str(folder / f"{method}.py"),), **options)
        return one

    return find


def drawn(search: Search, role: Any = "final", **values: Any) -> list[tuple[int | None, int]]:
    """(label subset, seed) of the trials of one configuration."""
    trials = search.trials([{**search.fixed, **values}], role)
    return [(trial.configuration.get("subset"), trial.seed) for trial in trials]


def test_a_share_of_the_labels_is_run_on_every_subset(search: Find) -> None:
    """Nothing is repeated where all labels are used, a corpus has none, or a method no choice."""
    share = search()
    assert drawn(share) == FULL
    assert drawn(share, "search") == [(0, 42), (1, 42)]
    assert [trial.config.subset for trial in share.trials([share.fixed], "final")] == [0, 0, 2, 2]
    assert drawn(share, label_fraction=1.0) == [(None, 0), (None, 1)]
    assert drawn(share, sentences="graded-sentences") == [(None, 0), (None, 1)]
    head, _, rest = SPACE.partition("set:")
    still = head + rest.partition("\n")[2].partition("methods:")[0] + "methods: {still: {}}\n"
    assert drawn(search("still", still)) == [(None, 0)]
    text = SPACE.replace(", subsets: [0, 1]", "").replace(", subsets: [0, 2]", "")
    assert drawn(search(text=text)) == [(0, 0), (0, 1)], "the default"
    narrowed = search(subsets=(7,))
    assert drawn(narrowed) == [(7, 0), (7, 1)]
    assert drawn(narrowed, "search") == [(0, 42), (1, 42)]
    other = SPACE.replace("subsets: [0, 1]", "subsets: [0, 3]")
    assert search("sampled").id != search("sampled", other).id


@pytest.mark.slow
def test_sweep_runs_every_subset_once(folder: Path, serially: Callable[..., Any]) -> None:
    """A grid and a sampler run every subset once.

    They score the mean over the search subsets, and the best configuration runs on all final seeds
    and subsets.
    """
    (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
    words = [*(folder / f"{name}.py" for name in ("gridded", "sampled")), folder / "space.yaml"]
    words += ["--store", folder / "store"]
    answer = serially(*words)
    assert answer.code == 0, answer.out + answer.err
    rows = Store(folder / "store").read().records()
    assert {row.label_fraction for row in rows} == {0.5}
    for method in ("gridded", "sampled"):
        searched, final = (
            [row for row in rows if (row.method, row.role) == (method, role)]
            for role in ("search", "final")
        )
        scores: dict[float, dict[int, float]] = {}
        for row in searched:
            scores.setdefault(row.configuration["learning_rate"], {})[row.subset] = row.dev_score
        assert [set(by_subset) for by_subset in scores.values()] == [{0, 1}, {0, 1}]
        best = max(scores, key=lambda rate: sum(scores[rate].values()))
        assert {row.configuration["learning_rate"] for row in final} == {best}
        assert sorted((row.subset, row.seed) for row in final) == FULL
    assert "seed 1 subset 2 of " in answer.out
    assert " 2x2 " in answer.out
    planned = serially(*words, "--dry-run").out
    assert "subsets: 0, 2" in planned
    assert "\n0 trials to run" in planned
