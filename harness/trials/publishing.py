"""A store for others: as one flat table, and as the part of it that may be published.

The store's own files have one schema for all methods, so that they can be read and folded quickly,
whatever methods they have: hyperparameters are JSON there, and scores are maps. The flat table has
columns such as `config.learning_rate`, `dev.stsb-dev` and `test.avg` in their places. It is a view:
it is made from the store, and nothing reads it back.

What is published has configurations, scores, costs and digests. It is a store again, so that others
compare with it and merge it. It names no host and no path, and no reason of a failure, because a
reason may quote a path.
"""

import json
import logging
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.data.hub_tables import is_hub_name
from harness.data.revisions import parts_of
from harness.errors import UserError
from harness.files import written_whole
from harness.inputs import check_types, is_folder
from harness.remote import SCHEME
from harness.trials.record import JSON_COLUMNS
from harness.trials.record_files import COMPACTED, Reading, write_rows
from harness.trials.remote_store import store_at
from harness.trials.schema import SCHEMA, WITHOUT_LARGE
from harness.trials.store import Store
from harness.trials.store_folders import DEFAULT_STORE

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


def data_frame(store: Path | str | None = None) -> "pandas.DataFrame":
    """The trials of a store as a flat DataFrame; it is `harness.load`. None: `results/trials`.

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
    check_types(data_frame.__annotations__, {"store": store})
    location = str(store or DEFAULT_STORE)
    if not location.startswith(SCHEME) and not is_folder(Path(location)):
        raise UserError(f"there is no store {location}")
    nullable = {
        pa.int64(): pandas.Int64Dtype(),
        pa.int32(): pandas.Int32Dtype(),
        pa.bool_(): pandas.BooleanDtype(),
    }
    frame: pandas.DataFrame = flat(store_at(location)).to_pandas(types_mapper=nullable.get)
    return frame


def flat(store: Store, reading: Reading | None = None) -> pa.Table:
    """The flat table of a store, without the columns that are most of a row's bytes.

    reading: what has been read of it, with the columns WITHOUT_LARGE; None: nothing. Raises
    UserError when the store cannot be read. What is damaged is named in a warning.
    """
    rows = _rows(store, reading or store.read(WITHOUT_LARGE))
    return flat_columns(rows.select(WITHOUT_LARGE))


def _rows(store: Store, reading: Reading) -> pa.Table:
    """The rows that were read; what is damaged is named in a warning."""
    for name, reason in reading.unreadable:
        _logger.warning("%s in %s cannot be read: %s", name, store.place, reason)
    return reading.table


def write_flat(store: Store, reading: Reading | None = None) -> None:
    """Write the flat table of a store to its place beside the store; `reading`: as of `flat`."""
    with written_whole(store.flat_file) as path:
        pq.write_table(flat(store, reading), path)


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
    numbers = range(len(names.dictionary))
    for name, number in sorted(zip(names.dictionary.to_pylist(), numbers, strict=True)):
        chosen = which == number
        values, missing = np.zeros(len(column)), np.ones(len(column), bool)
        values[rows[chosen]], missing[rows[chosen]] = scores[chosen], np.isnan(scores[chosen])
        yield f"{prefix}.{name}", pa.array(values, mask=missing)


PUBLIC_STATES = ("finished", "partial", "pruned")
"""The states of the records that are published; a failure says something of a machine only"""
_EMPTIED = ("host", "reason", "plugin")
PUBLIC_STORE, FLAT, TEXT = "trials", "trials-flat.parquet", "README.md"
"""Names in a published folder: a store, the same as one flat table, and a page that says so"""
_PAGE = """\
# Results of {count} trials

- `trials` is a store of harness: `harness table --store trials` prints its tables, and
  `harness merge trials --into STORE` adds its records to a store of one's own.
- `trials-flat.parquet` has the same with a column for each hyperparameter and each score, such as
  `config.learning_rate` and `test.avg`; pandas, Polars and DuckDB open it.

Every record has the digests of the method's source, of its data and of its models, and the versions
that it ran with. Hosts, paths and failures are left out.
"""


def publish(store: Store, folder: Path) -> int:
    """Write the public part of a store into a folder that is not there yet.

    Returns the number of records. What is damaged is named in a warning. Raises UserError when
    there is none, and when a text would name this machine, its user or a folder of it.
    """
    table = _rows(store, store.read(where={"status": PUBLIC_STATES})).sort_by("key")
    if not table.num_rows:
        raise UserError(f"the store {store.place} has no finished trial to publish")
    table = _public(table)
    for name, text in _named_here(table):
        raise UserError(
            f"the column {name} names this machine or its user ({text}), so nothing was published"
        )
    with written_whole(folder) as temporary:
        (temporary / PUBLIC_STORE).mkdir(parents=True)
        write_rows([table], temporary / PUBLIC_STORE / f"{COMPACTED}published.parquet")
        pq.write_table(flat_columns(table.select(WITHOUT_LARGE)), temporary.absolute() / FLAT)
        page = _PAGE.format(count=f"{table.num_rows:,}")
        (temporary / TEXT).write_text(page, encoding="utf-8")
    return int(table.num_rows)


def _public(table: pa.Table) -> pa.Table:
    """The rows without what only their machine needs."""
    for name in _EMPTIED:
        table = _replaced(table, name, pa.nulls(table.num_rows, pa.string()))
    for name in table.column_names:
        if table.schema.field(name).type == pa.string() and name not in _EMPTIED:
            table = _replaced(table, name, _without_folders(name, table[name].combine_chunks()))
    return table


def _replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), SCHEMA.field(name), column)


def _without_folders(name: str, column: pa.Array) -> pa.Array:
    """Texts in which a path is its last part alone."""

    def change(text: str) -> str:
        if name not in JSON_COLUMNS:
            return without_folder(text)
        value = without_folders(json.loads(text))
        if name == "corpora":  # the names of corpora may be paths
            value = {without_folder(corpus): items for corpus, items in value.items()}
        return json.dumps(value, sort_keys=True)

    texts = column.dictionary_encode()
    changed = [change(text) for text in texts.dictionary.to_pylist()]
    return pa.array(changed, pa.string()).take(texts.indices)


def _named_here(table: pa.Table) -> Iterator[tuple[str, str]]:
    """(column, word) for each word that only this machine can have written."""
    home = Path.home()
    words = {platform.node(), str(home), str(Path.cwd()), f"/{home.name}/"} - {"", "/", "//"}
    alone = re.compile("|".join(map(_alone, words)))
    for name in table.column_names:
        if table.schema.field(name).type == pa.string():
            for text in pc.unique(table[name]).drop_null().to_pylist():
                if found := alone.search(text):
                    yield name, found[0]


def _alone(word: str) -> str:
    """A pattern of a word that is no part of another one, as a host may be called."""
    before = r"(?<![\w-])" if word[0].isalnum() else ""
    behind = r"(?![\w-])" if word[-1].isalnum() else ""
    return f"{before}{re.escape(word)}{behind}"


_KIND = re.compile(r"[a-z]+:(?=~|\.{0,2}/)")
"""Kind in front of a path in the name of a corpus, such as `neighbours:`"""
_STARTS = ("/", "~", "./", "../")


def without_folders(value: Any) -> Any:
    """A value of JSON without the folders of its texts."""
    if isinstance(value, dict):
        return {name: without_folders(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(part) for part in value]
    return without_folder(value) if isinstance(value, str) else value


def without_folder(text: str) -> str:
    """A path of this machine without its folders; any other text as it is.

    The name of a model or a data set on the Hub has a `/`, too, but does not begin with one.
    """
    kind = match[0] if (match := _KIND.match(text)) else ""
    path = text.removeprefix(kind)
    inside = path.count("/") > 1 and not re.search(r"\s", path) and not _of_the_hub(path)
    is_path = path.startswith(_STARTS) or inside
    return kind + path.rstrip("/").rpartition("/")[2] if is_path else text


def _of_the_hub(text: str) -> bool:
    """Whether it can only be a model or a corpus with `@REVISION`, `:SPLIT` or `?COLUMNS`.

    Without these, it may as well be a folder inside the working directory.
    """
    name, columns, _ = parts_of(text)[0].partition("?")
    before, split, _ = name.partition(":")
    said = split or columns or "@" in before
    return bool(said) and is_hub_name(name) and not Path(before).suffix
