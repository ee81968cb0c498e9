"""All figures of a sweep, and why some cannot be drawn."""

from harness.report.figures.cost_and_score import cost_figure
from harness.report.figures.dev_and_test import dev_and_test_figure
from harness.report.figures.optuna_figures import importance_figure, parallel_figure
from harness.report.figures.report_figure import ReportFigure, file_name
from harness.report.figures.score_by_hyperparameter import hyperparameters_figure
from harness.report.figures.sweep_trials import SweepSearch
from harness.report.figures.training_curves import curves_figure


def sweep_figures(searches: list[SweepSearch], sweep: str) -> tuple[list[ReportFigure], list[str]]:
    """The figures of each search, then those of all; and sentences about what is not drawn.

    `sweep`: the name of the sweep, for the files of the figures of all searches.
    """
    made: list[ReportFigure] = []
    notes: list[str] = []
    for search in searches:
        _keep(made, notes, curves_figure(search), f"{search.label}: no trial has a history")
        if not search.names:
            notes.append(f"{search.label}: its search varies nothing")
            continue
        made.append(hyperparameters_figure(search))
        too_few = "importance needs four finished configurations and two hyperparameters"
        _keep(made, notes, importance_figure(search), f"{search.label}: {too_few}")
        _keep(
            made, notes, parallel_figure(search), f"{search.label}: no configuration has finished"
        )
    name = file_name(sweep)
    both = "no final trial has both a dev and a test score yet"
    _keep(made, notes, dev_and_test_figure(searches, name), both)
    _keep(made, notes, cost_figure(searches, name), "no trial has been trained")
    return made, notes


def _keep(made: list[ReportFigure], notes: list[str], figure: ReportFigure, lacking: str) -> None:
    """Keep a figure that has something to show, or else say why it has nothing."""
    if figure.table.num_rows:
        made.append(figure)
    else:
        notes.append(f"{lacking}, so {figure.name} is not drawn")
