"""Every architecture goes through `harness run` and `harness plan`; what cannot work says why."""

from pathlib import Path
from typing import Any

import pytest

from harness.trials.store import Store
from tests.architectures import ARCHITECTURES, save
from tests.cli.conftest import Harness, Shown, SpaceFile, sets

pytestmark = pytest.mark.slow

SMALL = {
    "suite": "graded", "sentences": "graded-sentences", "triplets": "graded-triplets",
    "max_steps": 1, "batch_size": 8, "precision": "fp32",
}  # fmt: skip


@pytest.fixture
def run(harness: Harness, tmp_path: Path) -> Harness:
    """run(method, encoder, field=value, ...): `harness run` with one update, into a store."""

    def call(method: str, encoder: object, **values: object) -> Any:
        small = {"suite": "graded"} if method == "pooling" else SMALL
        words = ("run", method, "--encoder", encoder, *sets(**{**small, **values}))
        return harness(*words, "--store", tmp_path / "store")

    return call


def test_plan_knows_the_size(shown: Shown, space: SpaceFile, tmp_path: Path) -> None:
    for name in ARCHITECTURES:
        folder = save(name, tmp_path / name)
        out = shown("plan", space(), "--encoder", folder, "--store", tmp_path / "store")
        assert "4 trials to run" in out, name
        assert "Time (an estimate): " in out, name


def test_views_that_are_the_same_are_refused(run: Harness, tmp_path: Path) -> None:
    folder = save("ModernBERT", tmp_path / "tiny")
    answer = run("simcse", folder)
    assert answer.code != 0
    assert "two views of a sentence are the same" in answer.out + answer.err
    assert "set encoder_dropout" in answer.out + answer.err
    assert run("simcse", folder, encoder_dropout=0.1).code == 0


def test_a_decoder_reads_as_it_is_told(run: Harness, tmp_path: Path) -> None:
    """A choice for decoders is forgotten where the model is an encoder."""
    folder, store = save("Llama", tmp_path / "tiny"), Store(tmp_path / "store")
    for pooling in ("last-token", "weighted-mean"):
        for attention in ("causal", "bidirectional"):
            answer = run("pooling", folder, decoder_pooling=pooling, decoder_attention=attention)
            assert answer.code == 0, answer.err
    assert len({str(record.test) for record in store.read().records()}) == 4
    assert run("pooling", "tiny-bert", decoder_pooling="mean").code == 0
    [record] = [record for record in store.read().records() if record.encoder == "tiny-bert"]
    assert record.configuration["decoder_pooling"] == "last-token"
