"""The data of a sweep's figures, compared with what was put into a made-up store."""

from math import nan
from typing import Any

import pytest

from harness.report.figures.printing import draw
from harness.report.figures.specification import score_axis
from harness.report.figures.sweep_figures import (
    AVERAGED,
    costs,
    curves_figure,
    hyperparameters_figure,
    parallel_figure,
    smoothed,
    sweep_figures,
    training_curves,
)
from harness.report.figures.sweeps import (
    FIGURE_COLUMNS,
    SweepSearch,
    configurations,
    sweep_searches,
)
from tests.report.conftest import MadeStore


def point(step: int, metric: str, value: float) -> dict[str, Any]:
    return {"step": step, "stage": "contrastive", "metric": metric, "value": value}


@pytest.fixture
def searches(store: MadeStore) -> list[SweepSearch]:
    """SimCSE (two rates; finals), DiffCSE; failed, pruned and evaluated trials beside them."""
    search = {"role": "search", "search": "aaaa", "test": {}}

    def add(rate: float, dev: float, seed: int = 42, **more: Any) -> None:
        given = {"seed": seed, "dev": {"stsb-dev": dev}, **search, **more}
        store.trial({"learning_rate": rate}, **given)

    add(1e-5, 70.0, training_seconds=10.0)
    add(3e-5, 80.0, 42, training_seconds=30.0, history=[
        point(1, "loss/contrastive", 0.5), point(2, "loss", 0.4), point(2, "dev", 80.0),
        point(2, "gradient_norm", 3.0), point(2, "divergence", 9.0),
    ])  # fmt: skip
    add(3e-5, 82.0, 43, training_seconds=50.0)
    add(1e-4, 40.0, status="pruned", training_seconds=1.0)
    add(1e-3, 0.0, status="failed", reason="loss is nan")
    for seed, dev, test in ((0, 81.0, 75.0), (1, 83.0, 77.0), (2, 82.0, 77.5)):
        final = {"role": "final", "test": {"stsb": 1.0, "avg": test}}
        add(3e-5, dev, seed, **final)
    store.trial(
        method="diffcse", role="search", search="bbbb", dev={"stsb-dev": 79.0}, test={},
        training_seconds=20.0,
    )  # fmt: skip
    store.trial(role="evaluation", search="", evaluates="0" * 32, suite="geometry")
    return sweep_searches(store.read(FIGURE_COLUMNS).table)


def test_searches_of_a_store(searches: list[SweepSearch]) -> None:
    assert [(each.id, each.label, each.names) for each in searches] == [
        ("bbbb", "diffcse unsup bert-base-uncased", ()),
        ("aaaa", "simcse unsup bert-base-uncased", ("learning_rate",)),
    ]
    assert [trial.dev_score for trial in searches[1].trials] == [83, 82, 82, 81, 80, 70, 40]


def test_configurations_are_means_over_their_search_trials(searches: list[SweepSearch]) -> None:
    """Final trials are not among them: they would favour the chosen configuration."""
    rows = configurations(searches[1])
    assert [row["values"]["learning_rate"] for row in rows] == [3e-5, 1e-5, 1e-4]
    assert [(row["dev"], row["n"], row["seconds"]) for row in rows] == [
        (81.0, 2, 40.0), (70.0, 1, 10.0), (40.0, 1, 1.0),
    ]  # fmt: skip
    assert rows[0]["std"] == pytest.approx(2**0.5)
    assert [row["std"] for row in rows[1:]] == [None, None]
    assert [row["pruned"] for row in rows] == [False, False, True]


def test_a_dev_score_that_is_no_number_is_none(store: MadeStore) -> None:
    for seed, dev in enumerate((nan, nan, -3.0, nan)):
        values, alike = {"learning_rate": 1e-5 if seed < 2 else 1e-4}, {"search": "aaaa"}
        store.trial(values, role="search", seed=seed, dev={"stsb-dev": dev}, test={}, **alike)
    [search] = sweep_searches(store.read(FIGURE_COLUMNS).table)
    assert [(row["dev"], row["n"]) for row in configurations(search)] == [(-3.0, 1)]
    assert search.trials[0].dev_score == -3


def test_curves_have_dev_terms_rates_and_norms(searches: list[SweepSearch]) -> None:
    """The summed loss is not drawn beside its terms; dev before training is the first point."""
    rows = training_curves(searches[1])
    assert [(row["metric"], row["step"], row["value"]) for row in rows] == [
        ("dev", 0, 50.0), ("dev", 2, 80.0), ("loss/contrastive", 1, 0.5),
        ("gradient_norm", 2, 3.0), ("divergence", 2, 9.0),
    ]  # fmt: skip
    [of] = {(row["trial"], row["place"]) for row in rows}
    assert of == ("learning_rate=3e-05 seed 42 (search)", 4)
    panels = {panel.title: panel for panel in curves_figure(searches[1]).panels}
    assert list(panels) == ["dev", "loss contrastive", "gradient norm", "divergence"]
    assert (panels["dev"].marks[0].x, panels["dev"].marks[0].y) == ([0, 2], [50.0, 80.0])


def test_costs_and_their_front(searches: list[SweepSearch]) -> None:
    rows = costs(searches)
    assert [(row["seconds"], row["dev"], row["front"]) for row in rows] == [
        (10.0, 70.0, True), (20.0, 79.0, True), (40.0, 81.0, True),
    ]  # fmt: skip
    assert [row["search"].split()[0] for row in rows] == ["simcse", "diffcse", "simcse"]


def test_parallel_lines_have_a_label_for_each_value(store: MadeStore) -> None:
    for rate in (1e-5, 2e-5, 5e-5, 1e-4):
        for pooling in ("cls", "mean"):
            store.trial(
                {"learning_rate": rate, "pooling": pooling}, role="search", search="aaaa",
                dev={"stsb-dev": 70 + 1e5 * rate}, test={},
            )  # fmt: skip
    [search] = sweep_searches(store.read(FIGURE_COLUMNS).table)
    [panel] = parallel_figure(search).panels
    labels = {mark.x[0]: list(mark.texts) for mark in panel.marks if mark.texts}
    assert labels[1] == ["1e-05", "2e-05", "5e-05", "0.0001"]
    assert labels[2] == ["cls", "mean"]


def test_values_and_encoders_that_are_alike_in_short_have_places_and_names_of_their_own(
    store: MadeStore,
) -> None:
    prompts = ["This sentence means [MASK].", "This sentence of X means [MASK]."]
    for encoder in ("a/best", "b/best"):
        for rate in (1e-3, 1.00001e-3):
            for dev, prompt in enumerate(prompts):
                store.trial(
                    {"learning_rate": rate, "template": prompt}, role="search", search="aaaa",
                    dev={"stsb-dev": 70 + dev}, test={}, encoder=encoder,
                )  # fmt: skip
    found = sweep_searches(store.read(FIGURE_COLUMNS).table)
    assert [search.label for search in found] == ["simcse unsup a/best", "simcse unsup b/best"]
    parallel, others = parallel_figure(found[0]), hyperparameters_figure(found[0])
    assert len({*parallel.legend}) == 4
    [panel] = parallel.panels
    labels = {mark.x[0]: list(mark.texts) for mark in panel.marks if mark.texts}
    assert (labels[1], labels[2]) == (["0.001", "0.00100001"], prompts)
    template = others.panels[1]
    assert [text for _, text in template.x.ticks or ()] == prompts
    [points] = [mark for mark in template.marks if mark.kind == "points" and len(mark.x) == 4]
    assert [*zip(points.x, points.y, strict=True)] == [(1, 71), (1, 71), (0, 70), (0, 70)]


def test_what_cannot_be_drawn_is_said(searches: list[SweepSearch]) -> None:
    figures, notes = sweep_figures(searches, "my space")
    assert [figure.name for figure in figures] == [
        "simcse-unsup-bert-base-uncased-curves",
        "simcse-unsup-bert-base-uncased-hyperparameters",
        "simcse-unsup-bert-base-uncased-parallel",
        "my-space-cost",
    ]
    assert notes == [
        "diffcse unsup bert-base-uncased: no trial has a history, so "
        "diffcse-unsup-bert-base-uncased-curves is not drawn",
        "diffcse unsup bert-base-uncased: its search varies nothing",
    ]
    assert all(len(line) <= 80 for figure in figures for line in figure.caption_lines)


def test_what_a_sweep_cannot_draw_at_its_beginning(store: MadeStore) -> None:
    """The first trials have ended without a dev score; then a pruner has ended some of them."""

    def drawn() -> tuple[list[str], list[str]]:
        figures, notes = sweep_figures(sweep_searches(store.read(FIGURE_COLUMNS).table), "mine")
        for figure in figures:
            draw(figure)
        return [figure.name.rpartition("-")[2] for figure in figures], notes

    for rate in (1e-5, 3e-5):
        store.trial({"learning_rate": rate}, role="search", search="aaaa", dev={}, test={})
    figures, notes = drawn()
    assert figures == []
    assert [note.rpartition("-")[2] for note in notes] == [
        f"{name} is not drawn" for name in ("curves", "hyperparameters", "parallel", "cost")
    ]
    for rate in (2e-5, 4e-5):
        pruned = {"status": "pruned", "dev": {"stsb-dev": 40.0}, "test": {}}
        store.trial({"learning_rate": rate}, role="search", search="aaaa", **pruned)
    figures, notes = drawn()
    assert "parallel" not in figures
    assert any("no configuration has finished, so" in note for note in notes)


def test_an_axis_ends_where_the_score_ends() -> None:
    for values, ends in (
        ([90.0, 99.9], (89.21, 100)),
        ([-99.9, -90.0], (-100, -89.208)),
        ([99.0, 104.0], (98.6, 104.4)),
    ):
        axis = score_axis("dev", values)
        assert (axis.low, axis.high) == pytest.approx(ends, abs=0.01)


def test_long_curves_are_means() -> None:
    steps = list(range(100))
    at, means = smoothed(steps, [float(step) for step in steps])
    assert at == steps[4:-4]
    assert means == pytest.approx(at), "the mean of a line is the line"
    assert smoothed(steps[:AVERAGED], [1.0] * AVERAGED) == (steps[:AVERAGED], [1.0] * AVERAGED)
