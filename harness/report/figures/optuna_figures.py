"""Importance of hyperparameters and parallel coordinates, by Optuna on a study of the store's.

The store has what every kind of search has tried, a grid too; so the study is made of its
configurations. That one is in memory; the studies on disk stay as they are.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from harness.report.figures.configurations import are_numbers, configurations, values_of
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import (
    COLOURS,
    PAGE_WIDTH,
    log_ticks,
    number_text,
    panels,
    plain_numbers,
    spans_decades,
)
from harness.report.figures.sweep_trials import SweepSearch

if TYPE_CHECKING:  # it takes a second to import, and a report draws without it
    import optuna
    from optuna.distributions import BaseDistribution

IMPORTANCES = pa.schema([("hyperparameter", pa.string()), ("importance", pa.float64())])
LEAST_CONFIGURATIONS = 4
"""Configurations below which an importance would say nothing"""


def study_of(table: pa.Table) -> "optuna.Study":
    """A study in memory with the configurations of a table of CONFIGURATIONS.

    The pruned ones are left out, because their scores are those of shorter trainings.
    """
    import optuna
    from optuna.trial import TrialState, create_trial

    rows = [row for row in table.to_pylist() if not row["pruned"]]
    params = [
        {
            name: value if are_numbers([value]) else number_text(value)
            for name, value in values_of(row).items()
        }
        for row in rows
    ]
    names = sorted({name for each in params for name in each})
    spaces = {name: _distribution([p[name] for p in params if name in p]) for name in names}
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    optuna.logging.set_verbosity(before)
    for row, values in zip(rows, params, strict=True):
        own = {name: spaces[name] for name in values}
        study.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                params=values,
                distributions=own,
                values=[row["dev"]],
            )
        )
    return study


def _distribution(values: Sequence[Any]) -> "BaseDistribution":
    """What the values may have been drawn from."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not are_numbers(list(values)):
        return CategoricalDistribution(list(dict.fromkeys(values)))
    low, high, log = min(values), max(values), spans_decades(values)
    if all(isinstance(value, int) for value in values):
        return IntDistribution(low, high, log=log)
    return FloatDistribution(float(low), float(high), log=log)


def importances(table: pa.Table) -> pa.Table:
    """The importance of each hyperparameter (IMPORTANCES), the largest first; they add up to 1.

    Each is the share of the variance of dev that a forest fitted to the configurations explains by
    it (fANOVA). There are none for fewer than LEAST_CONFIGURATIONS, or one hyperparameter.
    """
    rows = [row for row in table.to_pylist() if not row["pruned"]]
    shared = {name for row in rows for name in values_of(row)}
    found: dict[str, float] = {}
    if len(rows) >= LEAST_CONFIGURATIONS and len(shared) > 1:
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        evaluator = FanovaImportanceEvaluator(seed=0)
        found = get_param_importances(study_of(table), evaluator=evaluator)
    return pa.Table.from_pylist(
        [{"hyperparameter": name, "importance": float(value)} for name, value in found.items()],
        schema=IMPORTANCES,
    )


def importance_figure(search: SweepSearch) -> ReportFigure:
    """The figure of the importances of a search's hyperparameters."""
    table = configurations(search)
    return ReportFigure(
        name=f"{search.file_name}-importance",
        title=f"{search.label}: importance of the hyperparameters",
        caption=f"Share of the variance of {search.metric} over {table.num_rows} configurations "
        "that each hyperparameter explains (fANOVA of Optuna, seed 0). It holds for the values "
        "that were tried, and says little where these are few.",
        table=importances(table),
        draw=draw_importances,
    )


def draw_importances(table: pa.Table) -> Figure:
    """A bar for each row of a table of IMPORTANCES."""
    figure, [axis] = panels(1, height=0.5 + 0.28 * table.num_rows)
    names, values = (table[name].to_pylist() for name in IMPORTANCES.names)
    bars = axis.barh(names, values, color=COLOURS[2])
    axis.bar_label(bars, [f"{value:.2f}" for value in values], padding=3)
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of the variance, 0 to 1")
    return figure


def parallel_figure(search: SweepSearch) -> ReportFigure:
    """The figure of a search's configurations as lines through their values."""
    table = configurations(search)
    table = table.filter(pc.invert(table["pruned"]))
    return ReportFigure(
        name=f"{search.file_name}-parallel",
        title=f"{search.label}: parallel coordinates",
        caption=f"Each line is one of {table.num_rows} configurations, from its dev score on the "
        f"left ({search.metric}) through its values; the darker, the better.",
        table=table,
        draw=draw_parallel,
    )


def draw_parallel(table: pa.Table) -> Figure:
    """Optuna's own picture of a table of CONFIGURATIONS."""
    import optuna
    from matplotlib import pyplot
    from optuna.visualization.matplotlib import plot_parallel_coordinate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        drawn = plot_parallel_coordinate(study_of(table), target_name="dev")
    figure = drawn.figure
    assert isinstance(figure, Figure)
    # Optuna draws with pyplot, which would keep the figure and show it in a notebook.
    pyplot.close(figure)
    figure.set_size_inches(PAGE_WIDTH, 4)
    # Its axes share one place, which a layout engine cannot arrange.
    figure.subplots_adjust(left=0.09, right=0.94, top=0.9, bottom=0.32)
    [bar] = (axis for axis in figure.axes if axis.get_label() == "<colorbar>")
    bar.set_position((0.9, 0.32, 0.015, 0.58))
    drawn.set_title("")
    for axis in figure.axes:
        if axis.get_yscale() == "log":
            log_ticks(axis.yaxis)
        elif isinstance(axis.yaxis.get_major_formatter(), ScalarFormatter):
            plain_numbers(axis.yaxis)
        for label in axis.get_yticklabels(which="both"):
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8})
    for lines in (each for each in drawn.collections if isinstance(each, LineCollection)):
        low, high = lines.get_clim()
        lines.set_clim(low - 0.4 * (high - low), high)  # the palest would not be seen on paper
    return figure
