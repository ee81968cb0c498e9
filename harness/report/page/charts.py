"""The figures of a report as data that the page's script draws.

A chart says which column of its numbers is on which axis. A figure for which no chart is known is a
picture, as `harness figure` draws it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from harness.report.figures.configurations import values_of
from harness.report.figures.cost_and_score import draw_costs
from harness.report.figures.dev_and_test import draw_dev_and_test
from harness.report.figures.optuna_figures import draw_importances, draw_parallel
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.score_by_hyperparameter import draw_hyperparameters
from harness.report.figures.score_lines import draw_score_lines
from harness.report.figures.stage_one_curves import draw_stage_one
from harness.report.figures.training_curves import draw_curves

Mark = Literal["line", "point", "bar", "parallel"]


@dataclass(frozen=True)
class Chart:
    """What is drawn: names of columns of `numbers`, each with its place in the drawing."""

    mark: Mark
    numbers: Mapping[str, Sequence[Any]]
    """Column -> its values; `key` is that of a row's trial"""
    x: str = ""
    y: str = ""
    series: str = ""
    """One look for each value of this column"""
    view: str = ""
    """The reader chooses a value of this column, and sees its rows"""
    error: str = ""
    """Half the length of the error bars"""
    front: str = ""
    """Whether a row is on the line of those that no cheaper one beats"""
    caption: str = ""
    """What it shows, where that is not what the picture shows"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Column -> what its axis says, where that is not the column's name"""

    def data(self, trials: Mapping[str, int]) -> dict[str, Any]:
        """What the script reads. `trials`: key of a trial -> its number in the page."""
        columns = {name: values for name, values in self.numbers.items() if name != "key"}
        parts = {
            name: getattr(self, name) for name in ("x", "y", "series", "view", "error", "front")
        }
        return {
            "mark": self.mark,
            **{name: value for name, value in parts.items() if value},
            "labels": dict(self.labels),
            "columns": {name: _encoded(values) for name, values in columns.items()},
            "trials": [trials.get(key) for key in self.numbers.get("key", ())],
        }


def _encoded(values: Sequence[Any]) -> dict[str, Any]:
    """A column; text, which repeats itself, is numbered."""
    if not all(isinstance(value, str) for value in values):
        return {"values": list(values)}
    known = {text: number for number, text in enumerate(dict.fromkeys(values))}
    return {"values": list(known), "codes": [known[text] for text in values]}


def chart_of(figure: ReportFigure) -> Chart | None:
    """The chart of a figure; None where it is only a picture."""
    make = _CHARTS.get(figure.draw)
    return make(figure.table) if make else None


def _curves(table: pa.Table) -> Chart:
    rows = sorted(table.to_pylist(), key=lambda row: row["metric"] != "dev")  # dev comes first
    columns = {name: [row[name] for row in rows] for name in table.column_names}
    stages = len(set(columns["stage"]))
    views = [
        f"{metric} ({stage})" if stages > 1 else metric
        for stage, metric in zip(columns["stage"], columns["metric"], strict=True)
    ]
    kept = {name: columns[name] for name in ("trial", "key", "step", "value")}
    return Chart(
        "line",
        {"curve": views, **kept},
        *("step", "value", "trial", "curve"),
        caption="Dev, losses without their weights, learning rates, and norms of all gradients "
        "before clipping, by step of the whole trial. The trials with the best dev scores have "
        "looks of their own, the best one first.",
    )


def _hyperparameters(table: pa.Table) -> Chart:
    """One point for each configuration and each of its hyperparameters."""
    rows = [
        {
            "hyperparameter": name,
            "value": value,
            "state": "ended early" if row["pruned"] else "finished",
            **{key: row[key] for key in ("dev", "std", "n")},
        }
        for row in table.to_pylist()
        for name, value in sorted(values_of(row).items())
    ]
    columns = ("hyperparameter", "value", "state", "dev", "std", "n")
    numbers = {name: [row[name] for row in rows] for name in columns}
    return Chart(
        "point",
        numbers,
        *("value", "dev", "state"),
        view="hyperparameter",
        error="std",
        caption="A point for each configuration: the mean of dev over its n search trials, and "
        "their standard deviation as a bar, at its value of one hyperparameter.",
    )


def _importances(table: pa.Table) -> Chart:
    return Chart("bar", table.to_pydict(), "importance", "hyperparameter")


def _parallel(table: pa.Table) -> Chart:
    """A column for the dev score and for each hyperparameter."""
    rows = [(values_of(row), row["dev"]) for row in table.to_pylist() if not row["pruned"]]
    names = sorted({name for values, _ in rows for name in values})
    columns = {name: [values.get(name) for values, _ in rows] for name in names}
    return Chart(
        "parallel",
        {"dev": [dev for _, dev in rows], **columns},
        caption="A line for each configuration that was not ended early, from its dev score on "
        "the left through its values. The line of the best one is dashed.",
    )


def _dev_and_test(table: pa.Table) -> Chart:
    columns = table.to_pydict()
    metrics = {split: ", ".join(sorted(set(columns[f"{split}_metric"]))) for split in _SPLITS}
    kept = {name: columns[name] for name in ("search", "key", "seed", "dev", "test")}
    labels = {split: f"{split}: {metrics[split]}" for split in _SPLITS}
    return Chart("point", kept, "dev", "test", "search", labels=labels)


def _costs(table: pa.Table) -> Chart:
    return Chart(
        "point",
        table.drop_columns(["pruned"]).to_pydict(),
        "seconds",
        "dev",
        "search",
        front="front",
        labels={"seconds": "training seconds"},
    )


def _score_lines(table: pa.Table) -> Chart:
    columns = table.drop_columns(["hyperparameter"]).to_pydict()
    names = {"at": ", ".join(sorted(set(table["hyperparameter"].to_pylist())))}
    return Chart("point", columns, "at", "value", "source", "metric", error="std", labels=names)


def _stage_one(table: pa.Table) -> Chart:
    columns = table.filter(pc.equal(table["source"], "ours")).to_pydict()
    seeds = [f"seed {seed}" for seed in columns["seed"]]
    kept = {name: columns[name] for name in ("metric", "key", "step", "value")}
    return Chart("line", {**kept, "seed": seeds}, "step", "value", "seed", "metric")


_SPLITS = ("dev", "test")
_CHARTS: Mapping[Callable[..., Any], Callable[[pa.Table], Chart]] = {
    draw_curves: _curves,
    draw_hyperparameters: _hyperparameters,
    draw_importances: _importances,
    draw_parallel: _parallel,
    draw_dev_and_test: _dev_and_test,
    draw_costs: _costs,
    draw_score_lines: _score_lines,
    draw_stage_one: _stage_one,
}
