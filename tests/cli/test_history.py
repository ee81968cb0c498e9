"""The history of a trial: all of it in the record, and a short form on the screen."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from harness.trials.store import Store
from tests.cli.conftest import Shown
from tests.sweeping import write_few_pairs

pytestmark = pytest.mark.slow

ANALYSIS = {
    "sentences": "graded-sentences", "triplets": "graded-triplets", "analysis": "true",
    "stage1_steps": 4, "stage1_batch_size": 8, "batch_size": 8, "auxiliary_batch_size": 8,
    "max_steps": 2, "evaluation_interval": 2, "precision": "fp32",
}  # fmt: skip


def test_an_analysed_run_stores_its_curves(harness: Any, shown: Shown, tmp_path: Path) -> None:
    values = {**ANALYSIS, "suite": write_few_pairs(tmp_path)}
    settings = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    shown("run", "diffaug", "--encoder", "tiny-bert", "--store", tmp_path / "store", *settings)
    points = duckdb.sql(
        f"SELECT unnest(history, recursive := true) FROM '{tmp_path}/store/*.parquet'"
    ).df()
    of_steps = points["metric"].str.contains("/") | (points["metric"] == "gradient_norm")
    assert sorted(set(points[of_steps]["step"])) == [1, 2, 3, 4, 5, 6]
    assert set(points[of_steps & (points["stage"] == "augmentation")]["metric"]) == {
        "loss/classification", "gradient_norm", "rate/stage1_learning_rate",
    }  # fmt: skip
    evaluated = points[~of_steps]
    first = evaluated[evaluated["stage"] == "augmentation"].pivot(
        index="step", columns="metric", values="value"
    )
    assert first.index.tolist() == [0, 2, 4]
    assert first.drop(columns=["loss", "dev"]).notna().all(axis=None)
    assert {
        "divergence", "divergence-unit", "divergence-entailment", "divergence-dropout",
        "convergence", "convergence-key-0", "convergence-value-0",
    } <= set(first)  # fmt: skip
    assert evaluated[evaluated["stage"] == "contrastive"]["metric"].tolist() == ["loss", "dev"]
    [record] = Store(tmp_path / "store").read().records()
    dev = points[points["metric"] == "dev"]
    assert dev["step"].tolist() == [2, 4, 6]
    assert dev["value"].max() == record.dev["few-dev"]
    shown = harness("show", record.key, "--store", tmp_path / "store").out.splitlines()
    curves = [line for line in shown if line.startswith(("  augmentation ", "  contrastive "))]
    assert len(curves) == points.groupby(["stage", "metric"]).ngroups, "a line a metric"
    start, end = first["divergence"].iloc[[0, -1]]
    assert f"  augmentation divergence: {start:.5g} at 0 -> {end:.5g} at 4 (3 values)" in curves
    assert not any("{" in line for line in curves)
