"""A trial gives the same bits alone and after whatever its process has done before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.cli.verbs import run_verb
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial
from tests.programs import run_module
from tests.sweeping import write_few_pairs

pytestmark = [pytest.mark.slow, pytest.mark.process]  # DeepSpeed asks the machine for numactl
SHORT: dict[str, Any] = {
    "encoder": "tiny-bert", "sentences": "graded-sentences", "max_steps": 4, "batch_size": 8,
    "evaluation_interval": 2, "precision": "fp32",
}  # fmt: skip
TRAINED_BEFORE: dict[str, tuple[str, dict[str, Any]]] = {
    "another method": ("d2cse", {}),
    "two encoders": ("ct", {}),
    "half precision": ("simcse", {"precision": "bf16"}),
    "low-rank changes": ("simcse", {"lora_rank": 2}),
    "activations computed twice": ("simcse", {"gradient_checkpointing": True}),
    "ddp": ("simcse", {"engine": "ddp"}),
    "ZeRO 1": ("simcse", {"engine": "deepspeed", "zero": 1}),
    "ZeRO 2": ("simcse", {"engine": "deepspeed", "zero": 2}),
    "ZeRO 3": ("simcse", {"engine": "deepspeed", "zero": 3}),
    "ZeRO 3 that fails": ("simcse", {"engine": "deepspeed", "zero": 3, "learning_rate": 1e30}),
}
"""What a process trains first"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the trial, without its store."""
    suite = write_few_pairs(tmp_path_factory.mktemp("suite"))
    values = SHORT | {"suite": suite}
    return ["run", "simcse", *(f"--set={name}={value}" for name, value in values.items())]


@pytest.fixture(scope="module")
def alone(
    words: list[str], environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the trial gives in a process of its own."""
    store = tmp_path_factory.mktemp("alone") / "store"
    answer = run_module("harness", *words, "--store", store, environment=environment)
    assert answer.code == 0, answer.err
    return computed(store)


@pytest.fixture
def here(words: list[str], tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """What the trial gives in this process, now."""

    def run() -> dict[str, Any]:
        assert run_verb([*words, "--store", str(tmp_path / "store")]) == 0
        return computed(tmp_path / "store")

    return run


def computed(store: Path) -> dict[str, Any]:
    """All numbers of the only record of a store, with the digest of its weights."""
    (record,) = Store(store).read().records()
    names = ("history", "dev_before", "dev", "test", "details", "weights_digest", "threads")
    return {name: getattr(record, name) for name in names}


@pytest.mark.parametrize("before", TRAINED_BEFORE)
def test_after_another_training(
    before: str, alone: dict[str, Any], here: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    name, values = TRAINED_BEFORE[before]
    suite = write_few_pairs(tmp_path)
    # An engine makes this process the only rank of the trial.
    record = attempt(Trial(name, SHORT | {"suite": str(suite)} | values, seed=1), lambda _: None)
    assert record.status == ("failed" if "fails" in before else "finished"), record.reason
    assert here() == alone


def test_after_another_encoder_and_more_threads(
    alone: dict[str, Any], here: Callable[[], dict[str, Any]], tiny_roberta: Path, tmp_path: Path
) -> None:
    suite = write_few_pairs(tmp_path)
    values = SHORT | {"suite": str(suite), "encoder": str(tiny_roberta)}
    torch.set_num_threads(2)
    try:
        assert attempt(Trial("simcse", values, seed=0), lambda _: None).status == "finished"
    finally:
        torch.set_num_threads(1)
    assert here() == alone


def test_after_an_evaluation_and_an_export(
    alone: dict[str, Any],
    here: Callable[[], dict[str, Any]],
    words: list[str],
    tmp_path: Path,
) -> None:
    other = str(tmp_path / "other")
    assert run_verb([*words, "--store", other, "--seed", "1"]) == 0
    (record,) = Store(Path(other)).read().records()
    assert run_verb(["eval", record.key, "--suite", "graded", "--store", other]) == 0
    assert run_verb(["export", record.key, str(tmp_path / "model"), "--store", other]) == 0
    assert here() == alone
