"""Every architecture goes through `harness run` and `harness plan`; what cannot work says why."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.trials.store import Store
from tests.architectures import ARCHITECTURES, save
from tests.cli.conftest import Harness, Shown, SpaceFile, sets
from tests.programs import Answer

pytestmark = pytest.mark.slow

SMALL = {
    "suite": "graded", "sentences": "graded-sentences", "triplets": "graded-triplets",
    "max_steps": 1, "batch_size": 8, "precision": "fp32",
}  # fmt: skip
Run = Callable[..., Answer]


@pytest.fixture
def run(harness: Harness, tmp_path: Path) -> Run:
    """run(method, encoder, field=value, ...): `harness run` with one update, into a store."""

    def call(method: str, encoder: object, **values: object) -> Answer:
        small = {"suite": "graded"} if method == "pooling" else SMALL
        words = ("run", method, "--encoder", encoder, *sets(**{**small, **values}))
        return harness(*words, "--store", tmp_path / "store")

    return call


@pytest.mark.parametrize("name", ARCHITECTURES)
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
            answer = run("pooling", folder, decoder_pooling=pooling, decoder_attention=attention)
            assert answer.code == 0, answer.err
    scores = {str(record.test) for record in Store(tmp_path / "store").read().records()}
    assert len(scores) == 4


def test_how_a_decoder_reads_is_forgotten_where_there_is_none(run: Run, tmp_path: Path) -> None:
    assert run("pooling", "tiny-bert", decoder_pooling="mean").code == 0
    [record] = Store(tmp_path / "store").read().records()
    assert record.configuration["decoder_pooling"] == "last-token"
