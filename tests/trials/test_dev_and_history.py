"""A trial's dev score without its tests, and its history in the store."""

from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from harness.evaluation.suites import suite
from harness.trials.evaluate import Measurement, evaluation_key, evaluations
from harness.trials.lookup import model
from harness.trials.record import Record
from harness.trials.store import Store

pytestmark = pytest.mark.slow

# A suite's dev score without its tests.


def test_dev_alone_is_a_record_of_its_own(tmp_path: Path) -> None:
    """It embeds and scores dev only, and does not stand for the whole suite."""
    store, whole = Store(tmp_path / "store"), suite("graded")
    asked = model("tiny-bert", store, pooling=None, method=None)
    measurement = Measurement(asked, store)
    [alone] = evaluations(measurement, [whole.dev_alone])
    sentences = len(set(map(str.lower, whole.texts(whole.dev))))
    assert (alone.status, alone.suite, alone.test) == ("finished", "graded", {})
    assert measurement.embedder.sentences == sentences
    [full] = evaluations(Measurement(asked, store), [whole])
    assert full.test
    assert alone.dev == full.dev
    assert alone.key == evaluation_key(asked, whole.dev_alone) != full.key


# The history of a trial in the store, which the harness and other readers get back.

HISTORY = [
    {"step": 0, "stage": "augmentation", "metric": "divergence", "value": 0.1 + 0.2},
    {"step": 50, "stage": "augmentation", "metric": "loss", "value": 0.6931471805599453},
    {"step": 50, "stage": "augmentation", "metric": "dev", "value": 61.0},
]


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The harness, pandas and DuckDB read it from single and from compacted files."""
    store = Store(tmp_path)
    named = {"method": "diffaug", "setting": "semisup", "encoder": "tiny-bert"}
    plain = Record("b" * 32, "finished", "final", seed=0, configuration={}, **named)
    store.write(replace(plain, key="a" * 32, history=HISTORY))
    store.write(plain)
    for _ in range(2):
        assert [row.history for row in store.read().records()] == [HISTORY, []]
        frame = pd.concat(
            pd.read_parquet(path) for path in sorted(tmp_path.glob("*.parquet"))
        ).set_index("key")
        assert [dict(point) for point in frame.loc["a" * 32, "history"]] == HISTORY
        assert len(frame.loc["b" * 32, "history"]) == 0
        rows = duckdb.sql(f"SELECT unnest(history, recursive := true) FROM '{tmp_path}/*.parquet'")
        assert rows.columns == ["step", "stage", "metric", "value"]
        assert rows.fetchall() == [tuple(point.values()) for point in HISTORY]
        store.compact(at_least=1)
