"""Every architecture goes through `harness run` and `harness plan`; what cannot work says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.architectures import ARCHITECTURES, save
from tests.cli.conftest import Shown, SpaceFile

pytestmark = pytest.mark.slow

ALL = pytest.mark.parametrize("name", ARCHITECTURES)
SMALL = {
    "suite": "graded", "sentences": "graded-sentences", "triplets": "graded-triplets",
    "max_steps": 1, "batch_size": 8, "precision": "fp32",
}  # fmt: skip
Run = Callable[..., Any]


@pytest.fixture
def run(harness: Any, tmp_path: Path) -> Run:
    """run(method, encoder, field=value, ...): `harness run` with one update, into a store."""

    def call(method: str, encoder: Path, **values: Any) -> Any:
        small = {"suite": "graded"} if method == "pooling" else SMALL
        pairs = [f"{key}={value}" for key, value in {**small, **values}.items()]
        options = [word for pair in pairs for word in ("--set", pair)]
        return harness("run", method, "--encoder", encoder, *options, "--store", tmp_path / "store")

    return call


def records(tmp_path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(tmp_path / "store").to_pylist()
    return found


@ALL
def test_plan_knows_the_size(name: str, shown: Shown, space: SpaceFile, tmp_path: Path) -> None:
    folder = save(name, tmp_path / "tiny")
    out = shown("plan", space(), "--encoder", folder, "--store", tmp_path / "store")
    assert "4 trials to run" in out
    assert "Time (an estimate): " in out


def test_views_that_are_the_same_are_refused(run: Run, tmp_path: Path) -> None:
    folder = save("ModernBERT", tmp_path / "tiny")
    answer = run("simcse", folder)
    assert answer.code != 0
    assert "two views of a sentence are the same" in answer.out + answer.err
    assert "set encoder_dropout" in answer.out + answer.err
    assert run("simcse", folder, encoder_dropout=0.1).code == 0


def test_a_decoder_reads_as_it_is_told(run: Run, tmp_path: Path) -> None:
    folder = save("Llama", tmp_path / "tiny")
    for pooling in ("last-token", "weighted-mean"):
        for attention in ("causal", "bidirectional"):
            values = {"decoder_pooling": pooling, "decoder_attention": attention}
            answer = run("pooling", folder, **values)
            assert answer.code == 0, answer.err
    scores = {str(record["test"]) for record in records(tmp_path)}
    assert len(scores) == 4


def test_how_a_decoder_reads_is_forgotten_where_there_is_none(run: Run, tmp_path: Path) -> None:
    assert run("pooling", Path("tiny-bert"), decoder_pooling="mean").code == 0
    (record,) = records(tmp_path)
    assert '"decoder_pooling":"last-token"' in str(record["configuration"]).replace(" ", "")
