"""The flat table of a store, as pandas, Polars and DuckDB see it."""

import subprocess
import sys
from pathlib import Path

import pandas
import pyarrow as pa
import pytest

import harness
from harness.errors import UserError
from harness.trials.publishing import write_flat
from harness.trials.store import Store
from tests.trials.test_store import record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two methods, of which only one has a head, and a trial that failed."""
    store = Store(tmp_path / "trials")
    simcse = {"learning_rate": 3e-5, "batch_size": 64, "max_steps": None, "head": "tanh"}
    whitening = {"learning_rate": 1, "batch_size": 32, "max_steps": None, "layers": [1, 2]}
    store.write(record(1, configuration=simcse, dev={"stsb-dev": 80.0}, test={"avg": 75.5}))
    store.write(
        record(2, method="whitening", configuration=whitening, test={"avg": 70.0, "stsb": 71.0})
    )
    store.write(record(3, status="failed", reason="no memory", dev={}, test={}))
    return store


def test_a_data_frame(store: Store) -> None:
    frame = harness.load(store.folder).set_index("key").sort_index()
    assert len(frame) == 3
    first, second, third = (frame.iloc[row] for row in range(3))
    assert (first["config.learning_rate"], second["config.learning_rate"]) == (3e-5, 1.0)
    assert (first["dev.stsb-dev"], first["test.avg"], second["test.stsb"]) == (80.0, 75.5, 71.0)
    assert pandas.isna(first["test.stsb"])
    assert pandas.isna(third["test.avg"])
    assert (first["config.head"], second["config.layers"]) == ("tanh", "[1, 2]")
    assert frame["config.batch_size"].dtype == pandas.Int64Dtype()
    assert frame["test.avg"].mean() == 72.75
    assert first["versions.torch"] == "2.9"
    assert not [name for name in frame if isinstance(frame[name].iloc[0], list | dict)]


@pytest.mark.slow
def test_the_file_opens_anywhere(store: Store) -> None:
    import duckdb
    import polars

    write_flat(store)
    path = store.flat_file
    query = f"""select avg("test.avg"), max("config.learning_rate") from '{path}'"""
    assert duckdb.sql(query).fetchall() == [(72.75, 1.0)]
    frame = polars.read_parquet(path)
    assert frame["config.batch_size"].dtype == polars.Int64
    assert frame.filter(polars.col("test.avg") > 72)["config.head"].to_list() == ["tanh"]
    assert pandas.read_parquet(path)["dev.stsb-dev"].max() == 80.0
    assert not any(pa.types.is_nested(kind) for kind in pa.parquet.read_schema(path).types)


def test_an_empty_store_none_and_no_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    assert len(harness.load(tmp_path / "empty")) == 0
    with pytest.raises(UserError, match="there is no store"):
        harness.load(tmp_path / "none")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pip install pandas"):
        harness.load(tmp_path / "empty")


@pytest.mark.process
def test_the_import_stays_light() -> None:
    heavy = "{'torch', 'pandas', 'pyarrow', 'transformers'} & set(sys.modules)"
    code = f"import sys, harness; assert not {heavy}, {heavy}"
    subprocess.run([sys.executable, "-c", code], check=True)
