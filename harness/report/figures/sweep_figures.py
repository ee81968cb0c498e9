"""All figures of a sweep, and why some cannot be drawn.

Those of all searches together are here: dev against test, and cost against dev.
"""

from collections.abc import Sequence

from harness.report.figures.curves import curves_figure
from harness.report.figures.search_figures import (
    hyperparameters_figure,
    importance_figure,
    parallel_figure,
)
from harness.report.figures.specification import (
    Figure,
    Mark,
    Panel,
    Row,
    axis,
    file_name,
    mark_of,
    score_axis,
    spans_decades,
)
from harness.report.figures.sweeps import (
    SweepSearch,
    configurations,
)

LEAST_TRIALS = 3
"""Trials below which a correlation is always 1, -1 or nothing"""


def sweep_figures(searches: list[SweepSearch], sweep: str) -> tuple[list[Figure], list[str]]:
    """The figures of each search, then those of all; and sentences about what is not drawn.

    `sweep`: the name of the sweep, for the files of the figures of all searches.
    """
    made: list[Figure] = []
    notes: list[str] = []

    def keep(figure: Figure, lacking: str) -> None:
        """Keep a figure that has something to show, or else say why it has nothing."""
        if figure.panels:
            made.append(figure)
        else:
            notes.append(f"{lacking}, so {figure.name} is not drawn")

    for search in searches:
        keep(curves_figure(search), f"{search.label}: no trial has a history")
        if not search.names:
            notes.append(f"{search.label}: its search varies nothing")
            continue
        keep(hyperparameters_figure(search), f"{search.label}: no trial has a dev score")
        too_few = "importance needs four finished configurations and two hyperparameters"
        keep(importance_figure(search), f"{search.label}: {too_few}")
        keep(parallel_figure(search), f"{search.label}: no configuration has finished")
    name = file_name(sweep)
    both = "no final trial has both a dev and a test score yet"
    keep(dev_and_test_figure(searches, name), both)
    keep(cost_figure(searches, name), "no trial has been trained")
    return made, notes


def dev_and_test(searches: list[SweepSearch]) -> Sequence[Row]:
    """One row for each trial that has both scores, by search and key."""
    rows = [
        {
            "search": search.label,
            "key": trial.record.key,
            "seed": trial.record.seed,
            "dev_metric": search.metric,
            "dev": trial.dev,
            "test_metric": trial.test[0],
            "test": trial.test[1],
        }
        for search in searches
        for trial in search.trials
        if trial.dev is not None and trial.test is not None
    ]
    return sorted(rows, key=lambda row: (row["search"], row["key"]))


def dev_test_correlations(rows: Sequence[Row]) -> tuple[float, float] | None:
    """Pearson's and Spearman's correlation of dev and test, -1 to 1.

    None for fewer than LEAST_TRIALS trials, and where all scores of one kind are the same.
    """
    dev, test = ([row[split] for row in rows] for split in ("dev", "test"))
    if len(dev) < LEAST_TRIALS or len(set(dev)) == 1 or len(set(test)) == 1:
        return None
    from scipy import stats  # it takes long to import, and few trials need none of it

    return float(stats.pearsonr(dev, test).statistic), float(stats.spearmanr(dev, test).statistic)


def dev_and_test_figure(searches: list[SweepSearch], name: str) -> Figure:
    """Dev against test of a sweep's final trials, as a diagnosis: a point for each."""
    rows = dev_and_test(searches)
    found = dev_test_correlations(rows)
    shown = (
        "too few trials for a correlation"
        if found is None
        else f"Pearson r = {found[0]:.2f}, Spearman r = {found[1]:.2f}"
    )
    words = {
        split: ", ".join(sorted({row[f"{split}_metric"] for row in rows}))
        for split in ("dev", "test")
    }
    marks, labels = _points_by_search(rows, "dev", "test")
    panel = Panel(
        score_axis(f"dev: {words['dev']}", [row["dev"] for row in rows]),
        score_axis(f"test: {words['test']}", [row["test"] for row in rows]),
        marks,
        "test selects nothing",
        height=3.4,
    )
    return Figure(
        name=f"{name}-dev-test",
        title=f"Dev against test: {shown} (n = {len(rows)})",
        caption="A diagnosis only: nothing is selected by test. One point for each final trial; "
        "the correlation is over all points, of all searches together.",
        rows=rows,
        panels=[panel] if rows else [],
        legend=labels,
    )


def _points_by_search(rows: Sequence[Row], x: str, y: str) -> tuple[list[Mark], list[str]]:
    """Points with a look for each search, and the labels of the searches."""
    labels = sorted({row["search"] for row in rows})
    return [
        mark_of("points", [row for row in rows if row["search"] == label], x, y, look)
        for look, label in enumerate(labels)
    ], labels


def costs(searches: list[SweepSearch]) -> Sequence[Row]:
    """The configurations that have finished, as `configurations` gives them, the cheapest first.

    `front`: whether none that costs at most as much has a better dev score. Configurations that
    train nothing are left out.
    """
    rows = [
        {"search": search.label, **row}
        for search in searches
        for row in configurations(search)
        if row["seconds"] and not row["pruned"]
    ]
    rows.sort(key=lambda row: (row["seconds"], -row["dev"], row["search"]))
    best = float("-inf")
    for row in rows:
        row["front"] = row["dev"] > best
        best = max(best, row["dev"])
    return rows


def cost_figure(searches: list[SweepSearch], name: str) -> Figure:
    """Training seconds against dev, and the front as steps."""
    rows = costs(searches)
    devices = sorted({t.record.device for s in searches for t in s.trials if t.record.device})
    where = f" Devices: {', '.join(devices)}." if devices else ""
    front = [row for row in rows if row["front"]]
    points, labels = _points_by_search(rows, "seconds", "dev")
    seconds = [row["seconds"] for row in rows]
    log = spans_decades(seconds)
    panel = Panel(
        axis("training seconds", seconds if log else [0, *seconds], least=0, log=log),
        score_axis("dev", [row["dev"] for row in rows]),
        [mark_of("step", front, "seconds", "dev", "pale"), *points],
        height=3.4,
    )
    return Figure(
        name=f"{name}-cost",
        title="Cost against score",
        caption=f"Mean training seconds and mean dev score of {len(rows)} configurations over "
        f"their seeds. The line goes through those that no cheaper one beats.{where}",
        rows=rows,
        panels=[panel] if rows else [],
        legend=labels,
    )
