"""Dev against test of a sweep's final trials, as a diagnosis."""

import pyarrow as pa
from matplotlib.figure import Figure

from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import end_at_scores, look, panels
from harness.report.figures.sweep_trials import SweepSearch

PAIRED_SCORES = pa.schema(
    [
        ("search", pa.string()),
        ("key", pa.string()),
        ("seed", pa.int64()),
        ("dev_metric", pa.string()),
        ("dev", pa.float64()),
        ("test_metric", pa.string()),
        ("test", pa.float64()),
    ]
)
LEAST_TRIALS = 3
"""Trials below which a correlation is always 1, -1 or nothing"""


def dev_and_test(searches: list[SweepSearch]) -> pa.Table:
    """One row for each trial that has both scores (PAIRED_SCORES), by search and key."""
    rows = []
    for search in searches:
        for trial in search.trials:
            if trial.dev is not None and trial.test is not None:
                name, score = trial.test
                rows.append(
                    {
                        "search": search.label,
                        "key": trial.record.key,
                        "seed": trial.record.seed,
                        "dev_metric": search.metric,
                        "dev": trial.dev,
                        "test_metric": name,
                        "test": score,
                    }
                )
    rows.sort(key=lambda row: (row["search"], row["key"]))
    return pa.Table.from_pylist(rows, schema=PAIRED_SCORES)


def dev_test_correlations(table: pa.Table) -> tuple[float, float] | None:
    """Pearson's and Spearman's correlation of dev and test, -1 to 1.

    None for fewer than LEAST_TRIALS trials, and where all scores of one kind are the same.
    """
    dev, test = table["dev"].to_pylist(), table["test"].to_pylist()
    if len(dev) < LEAST_TRIALS or len(set(dev)) == 1 or len(set(test)) == 1:
        return None
    from scipy import stats  # it takes long to import, and few trials need none of it

    return float(stats.pearsonr(dev, test).statistic), float(stats.spearmanr(dev, test).statistic)


def dev_and_test_figure(searches: list[SweepSearch], name: str) -> ReportFigure:
    """The figure of dev against test."""
    table = dev_and_test(searches)
    found = dev_test_correlations(table)
    shown = (
        "too few trials for a correlation"
        if found is None
        else f"Pearson r = {found[0]:.2f}, Spearman r = {found[1]:.2f}"
    )
    return ReportFigure(
        name=f"{name}-dev-test",
        title=f"Dev against test: {shown} (n = {table.num_rows})",
        caption="A diagnosis only: nothing is selected by test. One point for each final trial; "
        "the correlation is over all points, of all searches together.",
        table=table,
        draw=draw_dev_and_test,
    )


def draw_dev_and_test(table: pa.Table) -> Figure:
    """A point for each row of a table of PAIRED_SCORES, a look for each search."""
    rows = table.to_pylist()
    searches = sorted({row["search"] for row in rows})
    figure, [axis] = panels(1, height=3.4, named=searches, shown="points")
    for number, search in enumerate(searches):
        own = [row for row in rows if row["search"] == search]
        points = look(number).points
        axis.plot([r["dev"] for r in own], [r["test"] for r in own], **points)
    metrics = {split: sorted({row[f"{split}_metric"] for row in rows}) for split in ("dev", "test")}
    axis.set_xlabel(f"dev: {', '.join(metrics['dev'])}")
    axis.set_ylabel(f"test: {', '.join(metrics['test'])}")
    axis.set_title("test selects nothing", loc="right", style="italic")
    end_at_scores(axis)
    return figure
