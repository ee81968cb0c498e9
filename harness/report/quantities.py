"""Measures of the columns of published tables: scores, cost and size of trials, or values."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.hub import model_shape
from harness.errors import UserError, suggest
from harness.evaluation.catalogue import CARDS, Metric, metric_named, metric_under
from harness.report.groups import Score, cell_of
from harness.report.measured_trials import TABLE_COLUMNS, MeasuredTrial
from harness.report.paper import ColumnRun, Paper
from harness.report.published import ReportedTable

_SOURCES = ("training_seconds", "peak_gpu_memory_mib", "parameters_total", "parameters_added")
_IDENTITY = ("encoder", "configuration")
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
    """The things that are counted, and why a paper may count others"""
    compared: bool = False
    """Whether the difference from a published number says anything"""


def _added_share(row: Row) -> float | None:
    """The parameters of an augmentation, in percent of the encoder (diffaug.md, section 6)."""
    total, added = row["parameters_total"], row["parameters_added"]
    if total is None or added is None:
        return None
    values = json.loads(row["configuration"] or "{}")
    if "augmentation" not in values:
        return 0.0  # dropout and edited texts add nothing
    shape = _shape(str(row["encoder"]))
    if shape is None:
        return None
    layers, hidden = shape
    # A prefix has a key and a value in each layer; the others have two matrices at two places.
    prefix = values["augmentation"] == "prefix"
    one = 2 * values["prompt_length"] if prefix else 2 * 2 * values["rank"]
    return float(100 * 2 * one * layers * hidden / (total - added))


def _shape(encoder: str) -> tuple[int, int] | None:
    """The layers of an encoder and the width of its vectors; None where it is not here."""
    if encoder == "bert-base-uncased":
        return 12, 768
    try:
        shape = model_shape(encoder, download=False)
        return int(shape["num_hidden_layers"]), int(shape["hidden_size"])
    except (UserError, KeyError, TypeError, ValueError):
        return None


def _scaled(column: str, unit: float) -> Callable[[Row], float | None]:
    return lambda row: None if row[column] is None else row[column] / unit


QUANTITIES: Mapping[str, Quantity] = {
    each.name: each
    for each in (
        Quantity(
            "added-parameters",
            _added_share,
            "Added parameters: those of both sets of prefixes, adapters or low-rank changes, in "
            "percent of the encoder (on BERT base, 294,912 for prefixes of length 8, 0 for "
            "dropout); heads and networks that only training needs are not counted.",
            compared=True,
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


def cost_of(quantity: Quantity, trials: tuple[MeasuredTrial, ...], table: pa.Table) -> Score | None:
    """The mean of a quantity over trials; None where one of them lacks it.

    table: rows of the store with PAPER_COLUMNS; without a column, its quantities are unknown.
    """
    columns = (*_SOURCES, *_IDENTITY)
    wanted = pc.is_in(table["key"], pa.array([trial.key for trial in trials], pa.string()))
    there = table.select([name for name in ("key", *columns) if name in table.column_names])
    rows = {row["key"]: row for row in there.filter(wanted).to_pylist()}
    values = [
        quantity.value({**dict.fromkeys(columns), **rows[trial.key]})
        for trial in trials
        if trial.key in rows
    ]
    numbers = [value for value in values if value is not None]
    return cell_of(numbers, trials) if numbers and len(numbers) == len(trials) else None


class Special(Enum):
    """A column that no record of the store has."""

    GIVEN = "given"
    """The subject of the row, such as a weight"""
    COSINE = "query-cosine"
    """The cosine of the table's query and the sentence in the heading"""
    SENTENCE = "ranked sentence"
    """The sentence that a model ranks at this place for the query of the heading"""
    HYPERPARAMETER = "hyperparameter"
    """The value of a field of the method's Config"""


_OF_KIND = {"examples": Special.SENTENCE, "hyperparameters": Special.HYPERPARAMETER}
TEXTS = (Special.GIVEN, Special.SENTENCE, Special.HYPERPARAMETER)
"""Columns whose values are printed as they are, and have no difference from ours"""
Measure = Metric | Quantity | Special
"""The content of a column"""


def measure_of(table: ReportedTable, index: int, run: ColumnRun) -> Measure:
    """The content of a column: that of its `run`, or else what its heading names.

    Raises UserError for a name that is neither a metric nor a quantity.
    """
    if table.kind in _OF_KIND:
        return _OF_KIND[table.kind]
    if run.metric is None:
        return metric_under(str(table.columns[index]), table.columns)
    if run.metric in QUANTITIES:
        return QUANTITIES[run.metric]
    if run.metric in {each.value for each in Special}:
        return Special(run.metric)
    metric = metric_named(run.metric)
    if metric is None:
        named = (name for card in CARDS.values() for name in (*card.headings, *card.dev_tasks))
        raise UserError(
            f'there is no metric or quantity "{run.metric}"'
            f"{suggest(run.metric, [*named, *QUANTITIES, *(each.value for each in Special)])}"
        )
    return metric


@dataclass(frozen=True)
class Column:
    """A column of a published table."""

    index: int
    heading: str
    run: ColumnRun
    measure: Measure
    decimals: int
    fraction: float
    """The share of the labels that its trials use"""


def columns_of(paper: Paper, name: str) -> list[Column]:
    """The columns of the table `name` of a paper."""
    table, systems, columns = paper.tables[name], paper.runs, []
    for index, heading in enumerate(map(str, table.columns)):
        run = systems.column(f"{paper.paper}.{name}", heading)
        # As many digits as the longest number has; two where no row has a published value.
        texts = [row.printed[index] for row in table.rows if row.value(index) is not None]
        decimals = max((len(text.partition(".")[2]) for text in texts), default=2)
        fraction = table.fractions[index] if table.fractions else 1.0
        measure = measure_of(table, index, run)
        columns.append(Column(index, heading, run, measure, decimals, fraction))
    return columns
