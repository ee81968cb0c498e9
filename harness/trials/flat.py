"""A store as one flat table: a typed column for each hyperparameter and each score.

The store's own files have one schema for all methods, so that they can be read and folded quickly,
whatever methods they have: hyperparameters are JSON there, and scores are maps. This table has
columns such as `config.learning_rate`, `dev.stsb-dev` and `test.avg` in their places. It is a view:
it is made from the store, and nothing reads it back.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import UserError
from harness.files import written_whole
from harness.inputs import is_folder
from harness.remote import SCHEME
from harness.trials.record import WITHOUT_LARGE
from harness.trials.remote_store import store_at
from harness.trials.store import Store

if TYPE_CHECKING:
    import pandas

_OBJECTS = {
    "configuration": "config",
    "engine": "engine",
    "versions": "versions",
    "revisions": "revisions",
    "corpora": "corpora",
}
"""Column with JSON -> the first part of the names of the flat columns"""
_MAPS = ("dev", "test", "contamination")
_LEFT_OUT = ("schema_version", "suite_card")
_logger = logging.getLogger(__name__)


def data_frame(location: Path | str) -> "pandas.DataFrame":
    """The trials of a store as a flat DataFrame; it is `harness.load`.

    A row is a trial or an evaluation. Whole numbers and truth values that some method does not have
    are pandas' nullable types. Raises UserError when there is no such store, and when pandas is not
    installed.

    Example:
        trials = harness.load("results/trials")
        trials[trials.status == "finished"].groupby("config.learning_rate")["test.avg"].mean()
    """
    try:
        import pandas
    except ImportError:
        raise UserError(
            "harness.load returns a DataFrame of pandas, which is not installed: pip install pandas"
        ) from None
    if not str(location).startswith(SCHEME) and not is_folder(Path(location)):
        raise UserError(f"there is no store {location}")
    nullable = {
        pa.int64(): pandas.Int64Dtype(),
        pa.int32(): pandas.Int32Dtype(),
        pa.bool_(): pandas.BooleanDtype(),
    }
    frame: pandas.DataFrame = flat(store_at(location)).to_pandas(types_mapper=nullable.get)
    return frame


def flat(store: Store) -> pa.Table:
    """The flat table of a store, without the columns that are most of a row's bytes.

    Raises UserError when the store cannot be read. What is damaged is named in a warning.
    """
    reading = store.read(WITHOUT_LARGE)
    for name, reason in reading.unreadable:
        _logger.warning("%s in %s cannot be read: %s", name, store.place, reason)
    return flat_columns(reading.table)


def write_flat(store: Store) -> None:
    """Write the flat table of a store to its place beside the store."""
    with written_whole(store.flat_file) as path:
        pq.write_table(flat(store), path)


def flat_columns(table: pa.Table) -> pa.Table:
    """The columns of a table of the store, each flat and with one type."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if name in _OBJECTS:
            columns |= dict(_of_objects(_OBJECTS[name], column))
        elif name in _MAPS:
            columns |= dict(_of_maps(name, column))
        elif name not in _LEFT_OUT:
            columns[name] = column
    return pa.table(columns)


def _of_objects(prefix: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """A column for each key of the JSON objects in a column, sorted by name."""
    # Trials of one configuration share its text, which is read once.
    texts = column.dictionary_encode()
    objects = [json.loads(text) for text in texts.dictionary.to_pylist()]
    for name in sorted({name for each in objects for name in each}):
        values = _typed([each.get(name) for each in objects])
        yield f"{prefix}.{name}", values.take(texts.indices)


def _typed(values: list[Any]) -> pa.Array:
    """The values in the narrowest type that has all of them; JSON texts where none has."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:  # most values that may be null are numbers
        return pa.nulls(len(values), pa.float64())
    for allowed, kind in (
        ({bool}, pa.bool_()),
        ({int}, pa.int64()),
        ({int, float}, pa.float64()),
        ({str}, pa.string()),
    ):
        if kinds <= allowed:
            return pa.array(values, kind)
    texts = [
        value if value is None or isinstance(value, str) else json.dumps(value) for value in values
    ]
    return pa.array(texts, pa.string())


def _of_maps(prefix: str, column: pa.MapArray) -> Iterator[tuple[str, pa.Array]]:
    """A column for each metric of the maps in a column, sorted by name."""
    names = column.keys.dictionary_encode()
    ends = np.asarray(column.offsets)
    rows = np.repeat(np.arange(len(column)), np.diff(ends))
    entries = slice(ends[0], ends[-1])
    which = np.asarray(names.indices)[entries]
    scores = column.items.to_numpy(zero_copy_only=False)[entries]
    found = sorted(zip(names.dictionary.to_pylist(), range(len(names.dictionary)), strict=True))
    for name, number in found:
        chosen = which == number
        values, missing = np.zeros(len(column)), np.ones(len(column), bool)
        values[rows[chosen]], missing[rows[chosen]] = scores[chosen], np.isnan(scores[chosen])
        yield f"{prefix}.{name}", pa.array(values, mask=missing)
