"""Quantities that published tables have beside scores: cost and size, as the store records them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.report.measured.groups import Cell, cell_of
from harness.report.measured.measured_trials import TABLE_COLUMNS, MeasuredTrial

_SOURCES = ("training_seconds", "peak_gpu_memory_mib", "parameters_total", "parameters_added")
PAPER_COLUMNS = (*TABLE_COLUMNS, *_SOURCES)
"""The columns of the store that the tables of a paper need"""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Quantity:
    """A number that a record has besides its scores."""

    name: str
    value: Callable[[Row], float | None]
    """The quantity of a record; None where the record lacks it"""
    note: str
    """What is counted, and why it may differ from what a paper counts"""
    compared: bool = False
    """Whether the difference from a published number says anything"""


def _added_share(row: Row) -> float | None:
    total, added = row["parameters_total"], row["parameters_added"]
    return None if total is None or added is None else 100 * added / (total - added)


def _scaled(column: str, unit: float) -> Callable[[Row], float | None]:
    return lambda row: None if row[column] is None else row[column] / unit


QUANTITIES: Mapping[str, Quantity] = {
    each.name: each
    for each in (
        Quantity(
            "added-parameters",
            _added_share,
            "Ours: everything outside the pretrained encoder, in percent of it; heads, classifiers "
            "and networks that only training needs are in it.",
        ),
        Quantity(
            "training-minutes",
            _scaled("training_seconds", 60),
            "Ours: minutes of training on this store's devices; only ratios between rows compare "
            "with those of the paper.",
        ),
        Quantity(
            "gpu-memory",
            _scaled("peak_gpu_memory_mib", 1024),
            "Ours: peak GPU memory in GiB; a CPU has none.",
        ),
        Quantity(
            "parameters",
            _scaled("parameters_total", 1e6),
            "Ours: all parameters that training holds, in millions; a frozen generator is not "
            "counted.",
            compared=True,
        ),
    )
}
"""The quantities that a column of a published table may show, by name"""


class Costs:
    """The quantities of the trials of a store."""

    def __init__(self, trials: pa.Table) -> None:
        """`trials`: rows with PAPER_COLUMNS; without a column, its quantities are unknown."""
        names = [name for name in _SOURCES if name in trials.column_names]
        self._trials = trials.select(["key", *names])

    def cell(self, quantity: Quantity, trials: tuple[MeasuredTrial, ...]) -> Cell | None:
        """The mean over trials; None where one of them lacks the quantity."""
        rows = self._rows({trial.key for trial in trials})
        values = [
            quantity.value(rows[trial.key]) if trial.key in rows else None for trial in trials
        ]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        return cell_of(known, trials)

    def _rows(self, keys: Collection[str]) -> dict[str, Row]:
        wanted = pc.is_in(self._trials["key"], pa.array(sorted(keys), pa.string()))
        empty = dict.fromkeys(_SOURCES)
        return {row["key"]: {**empty, **row} for row in self._trials.filter(wanted).to_pylist()}
