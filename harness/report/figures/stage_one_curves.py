"""DiffAug's divergence and convergence along its first stage (its Figure 3), for each seed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from matplotlib.figure import Figure

from harness.report.figures.published_points import PublishedPoint
from harness.report.figures.style import PALE, end_at, look, panels, plain_numbers
from harness.trials.record import Record

STAGE_ONE = pa.schema(
    [
        ("source", pa.string()),  # ours | paper
        ("key", pa.string()),
        ("seed", pa.int64()),
        ("metric", pa.string()),  # divergence | divergence-dropout | convergence
        ("step", pa.int64()),
        ("value", pa.float64()),
        ("note", pa.string()),
    ]
)
TITLES = {
    "divergence": "(a) divergence of the views (delta)",
    "convergence": "(b) convergence of the weights (kappa)",
}
DROPOUT = "divergence-dropout"


def stage_one_curves(records: Iterable[Record], points: Iterable[PublishedPoint]) -> pa.Table:
    """Both curves and the reference line of dropout (STAGE_ONE), by seed; and the paper's points.

    `points`: those of panel a, which name a step.
    """
    rows = [
        {
            "source": "ours",
            "key": record.key,
            "seed": record.seed,
            **{name: point[name] for name in ("metric", "step", "value")},
        }
        for record in sorted(records, key=lambda record: (record.seed, record.key))
        for point in record.history
        if point["metric"] in (*TITLES, DROPOUT)
    ]
    rows += [
        {"source": "paper", "metric": "divergence", "step": int(point.at), "note": point.note}
        for point in points
    ]
    return pa.Table.from_pylist(rows, schema=STAGE_ONE)


def draw_stage_one(table: pa.Table) -> Figure:
    """The two panels of a table of STAGE_ONE."""
    rows = table.to_pylist()
    seeds = sorted({row["seed"] for row in rows if row["source"] == "ours"})
    figure, axes = panels(2, height=2.8, named=[f"seed {seed}" for seed in seeds])
    for axis, (metric, title) in zip(axes, TITLES.items(), strict=True):
        for number, seed in enumerate(seeds):
            own = [row for row in rows if row["seed"] == seed]
            axis.plot(*_curve(own, metric), **look(number).line)
            if metric == "divergence":
                axis.plot(*_curve(own, DROPOUT), color=PALE, linewidth=0.8)
        for row in rows:
            if row["source"] == "paper" and row["metric"] == metric:
                axis.axvline(row["step"], color=PALE, linestyle=":")
        axis.set_title(title)
        axis.set_xlabel("step of stage 1")
        axis.set_xlim(left=0)
        plain_numbers(axis.yaxis)
    end_at(axes[0], low=0)  # a mean of distances
    return figure


def _curve(rows: Sequence[Mapping[str, Any]], metric: str) -> tuple[list[int], list[float]]:
    own = [row for row in rows if row["metric"] == metric]
    return [row["step"] for row in own], [row["value"] for row in own]
