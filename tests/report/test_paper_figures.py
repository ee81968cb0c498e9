"""The figures of the papers from a made-up store: lines, the paper's points, what is lacking."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.text import Text

from harness import PROTOCOL
from harness.files import shipped
from harness.report.coverage import shares
from harness.report.figures.paper_figures import (
    LINES,
    STAGE_ONE_FIGURE,
    chosen_trials,
    store_figure,
)
from harness.report.figures.printing import draw
from harness.report.figures.specification import Figure
from harness.report.matching import Commands
from harness.report.paper import load_systems
from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper
from harness.targets.drawings import own_figure
from tests.report.conftest import MadeStore

PREFIXES = {"method": "diffaug", "setting": "semisup"}
DEEP = {"prompts": "deep", "mlm": False}


def values_of(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def check_drawn(figure: Figure, *words: str) -> None:
    """The figure can be drawn, and its axes and captions say these words."""
    drawn = draw(figure)
    said = [text.get_text() for text in drawn.findobj(Text)] + [figure.title, figure.caption]
    for word in words:
        assert any(word in each for each in said), (word, said)
    assert any(len(axis.lines) + len(axis.collections) for axis in drawn.axes)


@pytest.mark.parametrize("name", LINES)
def test_the_values_are_those_of_the_search_space(name: str) -> None:
    """The command that a figure prints runs what the figure asks for."""
    space = shipped("search_spaces") / "ablations" / f"{name}.yaml"
    fields = yaml.safe_load(space.read_text(encoding="utf-8"))
    drawn = load_systems().figures[name.replace("-", ".")]
    [(hyperparameter, values)], [row] = drawn.axis.items(), drawn.rows
    method = fields["methods"][row.system]
    assert [each[hyperparameter] for each in method["variants"].values()] == values
    assert fields["setting"] == row.setting
    assert fields["encoders"] == [row.encoder]
    run = load_systems().systems[row.system]
    assert method.get("set", {}).items() <= run.variants[row.variant].items()


def test_a_line_of_means_beside_the_papers_point(store: MadeStore) -> None:
    for length, scores in ((4, [84.0, 86.0]), (8, [85.0, 88.0, 86.0])):
        for seed, dev in enumerate(scores):
            values = {"auxiliary_weight": 0, "prompt_length": length, "label_fraction": 1}
            store.trial(values, seed=seed, dev={"stsb-dev": dev}, **PREFIXES)
    # Neither an ablation, nor another weight, nor a share of the labels belongs to the figure.
    adapters = {"auxiliary_weight": 0, "prompt_length": 8, "augmentation": "adapter"}
    store.trial(adapters, dev={"stsb-dev": 99.0}, **PREFIXES)
    store.trial({"auxiliary_weight": 0.1, "prompt_length": 16}, dev={"stsb-dev": 99.0}, **PREFIXES)
    share = {"auxiliary_weight": 0, "prompt_length": 16, "label_fraction": 0.1}
    store.trial(share, dev={"stsb-dev": 99.0}, **PREFIXES)
    [figure], notes = store_figure("diffaug-figure4", store, None)
    check_drawn(figure, "bert-base-uncased", "prompt length")
    rows = figure.rows
    assert [values_of(row, "source", "at", "value", "n") for row in rows] == [
        ("ours", 4.0, 85.0, 2), ("ours", 8.0, pytest.approx(259 / 3), 3),
        ("paper", 8.0, 86.2, None),
    ]  # fmt: skip
    assert rows[0]["std"] == pytest.approx(2**0.5)
    assert rows[1]["std"] == pytest.approx((7 / 3) ** 0.5)
    assert "bars: sample standard deviation over the seeds (n = 2, 3)" in figure.caption
    assert notes == [
        "the store lacks prompt_length 1, 2, 16, 32 of diffaug on bert-base-uncased; run: "
        f"harness sweep diffaug-figure4 --store {store.place}"
    ]


def test_the_cross_entropy_is_that_of_the_end_of_stage_one(store: MadeStore) -> None:
    values = {"auxiliary_weight": 0, "prompt_length": 8, "stage1_steps": 500, "label_fraction": 1}
    for seed, ends in enumerate((0.5, 0.7)):
        points = [("augmentation", 250, 0.9), ("augmentation", 500, ends), ("contrastive", 600, 9)]
        history = [
            {"step": step, "stage": stage, "metric": "loss", "value": float(value)}
            for stage, step, value in points
        ]
        store.trial(values, seed=seed, history=history, dev={"stsb-dev": 80.0}, **PREFIXES)
    [figure], _ = store_figure("diffaug-figure5", store, None)
    check_drawn(figure, "STS-B dev", "cross entropy of stage 1")
    rows = [row for row in figure.rows if row["metric"] != "stsb-dev"]
    assert [values_of(row, "at", "value", "n") for row in rows] == [(500.0, pytest.approx(0.6), 2)]
    [said] = [row for row in figure.rows if row["source"] == "paper"]
    assert values_of(said, "at", "value") == (2000.0, None)


def test_test_averages_against_the_prompt_length(store: MadeStore) -> None:
    for length in (1, 16):
        store.trial(DEEP | {"prompt_length": length}, 70.0 + length, method="dcpcse")
    [figure], [note] = store_figure("dcpcse-figure2", store, None)
    check_drawn(figure, "Avg.", "prompt length")
    rows = [row for row in figure.rows if row["source"] == "ours"]
    assert [values_of(row, "at", "value", "std", "n") for row in rows] == [
        (1.0, 71.0, None, 1), (16.0, 86.0, None, 1),
    ]  # fmt: skip
    paper = [row["value"] for row in figure.rows if row["source"] == "paper"]
    assert paper == [76.5, 78.49]
    assert "prompt_length 2, 3, 4" in note


def test_stage_one_by_seed(store: MadeStore) -> None:
    names = ("divergence", "divergence-dropout", "convergence", "divergence-unit", "dev")
    for seed in (0, 1):
        history = [
            {"step": step, "stage": "augmentation", "metric": name, "value": seed + number + step}
            for step in (0, 250)
            for number, name in enumerate(names)
        ]
        store.trial({"analysis": True, "label_fraction": 1}, seed=seed, history=history, **PREFIXES)
    [figure], notes = store_figure(STAGE_ONE_FIGURE, store, None)
    check_drawn(figure, "step")
    assert notes == []
    rows = figure.rows
    assert [values_of(row, "seed", "metric", "step", "value") for row in rows if row["key"]] == [
        (seed, name, step, float(seed + number + step))
        for seed in (0, 1)
        for step in (0, 250)
        for number, name in enumerate(names[:3])
    ]
    assert [values_of(row, "metric", "step") for row in rows if not row["key"]] == [
        ("divergence", 1500)
    ]


def test_another_encoder(store: MadeStore) -> None:
    store.trial(DEEP | {"prompt_length": 3}, method="dcpcse", encoder="mini-bert")
    [figure], _ = store_figure("dcpcse-figure2", store, "mini-bert")
    assert figure.name == "dcpcse-figure2-mini-bert"
    assert figure.rows[0]["at"] == 3.0


@pytest.mark.parametrize("name", ["diffaug-figure3", "diffaug-figure4", "dcpcse-figure2"])
def test_a_figure_without_a_trial_of_ours_is_a_sentence(name: str, store: MadeStore) -> None:
    """An axis without a line says nothing."""
    for options, words in ((None, name), ("mini-bert", f"{name} --encoder mini-bert")):
        figures, [note] = store_figure(name, store, options)
        assert figures == []
        assert note.startswith("the store ")
        assert note.endswith(f"run: harness sweep {words} --store {store.place}")
        assert name != STAGE_ONE_FIGURE or "has no analysed trial of diffaug on" in note


def test_models_are_chosen_on_dev(store: MadeStore) -> None:
    """The better configuration by its mean, and of it the better trial; test does not matter."""
    keys_by_dev = {}
    for rate, seed, dev, test in (
        (1e-5, 0, 80.0, 1.0),
        (1e-5, 1, 82.0, 2.0),
        (3e-5, 0, 80.5, 99.0),
    ):
        given = {"seed": seed, "dev": {"stsb-dev": dev}, "test": {"stsb": test}}
        keys_by_dev[dev] = store.trial({"learning_rate": rate, "label_fraction": 1}, **given)
    for ablation in ({"head": "batchnorm"}, {"masked_language_weight": 0.1}):
        store.trial({**ablation, "label_fraction": 1}, dev={"stsb-dev": 99.0})
    commands = Commands(["simcse", "diffcse"], store.place)
    keys, notes = chosen_trials("diffcse-figure2", Comparer(store.read().table), commands)
    assert keys == {"simcse": keys_by_dev[82.0]}
    [note] = notes
    assert note.startswith("the store has no diffcse unsup bert-base-uncased")
    assert "; run: harness sweep methods/diffcse search_spaces/unsup.yaml --encoder" in note


def test_trials_of_another_protocol_are_named_and_fill_no_figure(store: MadeStore) -> None:
    def share() -> str:
        comparer = Comparer(store.read().table)
        found = shares(load_paper("diffcse"), comparer, commands.methods)
        return next(str(each) for each in found if each.name == "Figure 2")

    store.trial({"label_fraction": 1}, protocol=1)
    commands = Commands(["simcse", "diffcse"], store.place)
    _, notes = chosen_trials("diffcse-figure2", Comparer(store.read().table), commands)
    assert notes[1:] == [f"shown although trained or measured by protocol 1, not {PROTOCOL}"]
    assert share() == "0 of 2 runs"
    store.trial({"label_fraction": 1})
    assert share() == "1 of 2 runs"


# The figure of a table of a paper of one's own: its numbers, and what is lacking.


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


def test_each_row_is_a_curve_beside_its_published_points(paper: str, store: MadeStore) -> None:
    for temperature, scores in ((0.1, [80.0, 82.0]), (0.01, [78.0])):
        for seed, dev in enumerate(scores):
            store.trial({"temperature": temperature}, seed=seed, dev={"stsb-dev": dev})
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


def test_the_share_of_a_figure_is_that_of_its_table(paper: str, store: MadeStore) -> None:
    """Without a trial it is not drawn."""
    own = load_paper(paper)
    drawn, notes = own_figure(own, "figure1", None, store)
    assert (drawn, len(notes)) == ([], 2)
    store.trial({"temperature": 0.1})
    table, figure = shares(own, Comparer(store.read().table), ["simcse"])
    # SimCSE has no published number at 0.1, so the trial there fills no cell.
    assert str(table) == "0 of 5 cells, 3 quoted only"
    assert (figure.name, str(figure)) == ("Figure 1", "0 of 5 points, 3 quoted only")
    assert figure.about == "dev by temperature"
