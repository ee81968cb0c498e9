"""The figure of a table of a paper of one's own: its numbers, and what is lacking."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.report.coverage import shares
from harness.report.figures.printing import draw
from harness.report.figures.specification import Figure
from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper
from harness.targets.figures import own_figure
from harness.trials.store import Store

PAPER = """\
title: Mine
tables:
  table1:
    about: the temperature
    metric: dev
    columns: [cold, 0.1, "0.05"]
    groups:
      - name: BERT base
        rows:
          - {label: SimCSE, system: simcse, setting: unsup, encoder: bert-base-uncased,
             origin: "quoted:S", values: [80.0, null, 82.5]}
          - {label: Quoted, setting: unsup, encoder: bert-base-uncased, origin: "quoted:Q",
             values: [70.0, 71.0, 72.0]}
          - {label: Large, system: simcse, setting: unsup, encoder: bert-large-uncased,
             origin: this paper}
facts:
  table1:
    metric: stsb-dev
    columns:
      cold: {configuration: {temperature: 0.01}}
      "0.1": {configuration: {temperature: 0.1}}
      "0.05": {configuration: {temperature: 0.05}}
figures:
  figure1: {about: dev by temperature, table: table1, axis: temperature}
"""


@pytest.fixture
def paper(tmp_path: Path) -> str:
    path = tmp_path / "paper.yaml"
    path.write_text(PAPER, encoding="utf-8")
    return str(path)


def numbers(figure: Figure, label: str, source: str) -> list[tuple[float, float, float | None]]:
    """(place, value, std) of the points of a row."""
    rows = [row for row in figure.rows if (row["row"], row["source"]) == (label, source)]
    return [(row["at"], row["value"], row["std"]) for row in rows]


def test_each_row_is_a_curve_beside_its_published_points(
    paper: str, store: Store, add_trial: Callable[..., str]
) -> None:
    for temperature, scores in ((0.1, [80.0, 82.0]), (0.01, [78.0])):
        for seed, dev in enumerate(scores):
            add_trial({"temperature": temperature}, seed=seed, dev={"stsb-dev": dev})
    [figure], notes = own_figure(load_paper(paper), "figure1", None, store)
    # In the order of the axis, which is not that of the columns.
    assert numbers(figure, "SimCSE", "ours") == [
        (0.01, 78.0, None), (0.1, 81.0, pytest.approx(2**0.5)),
    ]  # fmt: skip
    assert numbers(figure, "SimCSE", "paper") == [(0.01, 80.0, None), (0.05, 82.5, None)]
    quoted = [(0.01, 70.0, None), (0.05, 72.0, None), (0.1, 71.0, None)]
    assert numbers(figure, "Quoted", "paper") == quoted
    assert figure.legend == ["SimCSE", "Quoted", "Large"]
    assert "(n = 1, 2). Hollow: published numbers." in figure.caption
    command = f"harness sweep --paper {paper} --table 1 --store {store.place}"
    assert notes == [
        f"the store lacks temperature 0.05 of SimCSE; run: {command}",
        f"the store lacks temperature 0.01, 0.1, 0.05 of Large; run: {command}",
    ]
    drawing = draw(figure)
    assert drawing.axes[0].get_xlabel() == "temperature"
    assert drawing.axes[0].get_ylabel() == "STS-B dev"


def test_a_figure_without_a_trial_of_ours_is_not_drawn(paper: str, store: Store) -> None:
    drawn, notes = own_figure(load_paper(paper), "figure1", None, store)
    assert not drawn
    assert len(notes) == 2


def test_the_share_of_a_figure_is_that_of_its_table(
    paper: str, store: Store, add_trial: Callable[..., str]
) -> None:
    add_trial({"temperature": 0.1})
    own = load_paper(paper)
    table, figure = shares(own, Comparer(store.read().table), ["simcse"])
    # SimCSE has no published number at 0.1, so the trial there fills no cell.
    assert str(table) == "0 of 5 cells, 3 quoted only"
    assert (figure.name, str(figure)) == ("Figure 1", "0 of 5 points, 3 quoted only")
    assert figure.about == "dev by temperature"
