"""Label subsets are repeated like seeds, where only a share of the labels is used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_plugin: Callable[..., Path]) -> Path:
    """The folder of the plugins."""
    folder = tmp_path_factory.mktemp("subsets")
    for name in ("gridded", "sampled"):
        write_plugin(folder / f"{name}.py", "trained")
    write_plugin(folder / "still.py", "known")
    return folder


def search(folder: Path, method: str = "gridded", text: str = SPACE, **overrides: Any) -> Search:
    """The search of one method."""
    path, methods = folder / "space.yaml", (str(folder / f"{method}.py"),)
    path.write_text(text, encoding="utf-8")
    [found] = searches(*load_space(path), Overrides(methods=methods, **overrides))
    return found


def drawn(found: Search, role: Any = "final", **values: Any) -> list[tuple[int | None, int]]:
    """(label subset, seed) of the trials of one configuration."""
    trials = found.trials([{**found.fixed, **values}], role)
    return [(trial.configuration.get("subset"), trial.seed) for trial in trials]


def test_a_share_of_the_labels_is_run_on_every_subset(folder: Path) -> None:
    found = search(folder)
    assert drawn(found) == FULL
    assert drawn(found, "search") == [(0, 42), (1, 42)]
    assert [trial.config.subset for trial in found.trials([found.fixed], "final")] == [0, 0, 2, 2]


def test_where_no_share_is_used_there_is_nothing_to_repeat(folder: Path) -> None:
    """All labels; a corpus without labels; a method without the choice; the default."""
    found = search(folder)
    assert drawn(found, label_fraction=1.0) == [(None, 0), (None, 1)]
    assert drawn(found, sentences="graded-sentences") == [(None, 0), (None, 1)]
    head, _, rest = SPACE.partition("set:")
    still = head + rest.partition("\n")[2].partition("methods:")[0] + "methods: {still: {}}\n"
    assert drawn(search(folder, "still", still)) == [(None, 0)]
    text = SPACE.replace(", subsets: [0, 1]", "").replace(", subsets: [0, 2]", "")
    assert drawn(search(folder, text=text)) == [(0, 0), (0, 1)]


def test_other_subsets_are_another_search(folder: Path) -> None:
    narrowed = search(folder, subsets=(7,))
    assert drawn(narrowed) == [(7, 0), (7, 1)]
    assert drawn(narrowed, "search") == [(0, 42), (1, 42)]
    other = SPACE.replace("subsets: [0, 1]", "subsets: [0, 3]")
    assert search(folder, "sampled").id != search(folder, "sampled", other).id


@pytest.mark.slow
def test_sweep_runs_every_subset_once(folder: Path, serially: Callable[..., Any]) -> None:
    """A grid and a sampler run every subset once.

    They score the mean over the search subsets, and the best configuration runs on all final seeds
    and subsets.
    """
    search(folder)  # this writes the search space
    arguments = [*(folder / f"{name}.py" for name in ("gridded", "sampled")), folder / "space.yaml"]
    answer = serially(*arguments, "--store", folder / "store")
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
    planned = serially(*arguments, "--store", folder / "store", "--dry-run").out
    assert "subsets: 0, 2" in planned
    assert "\n0 trials to run" in planned
