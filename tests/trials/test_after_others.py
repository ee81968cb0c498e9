"""A trial gives the same bits alone and after whatever its process has done before."""

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

SHORT: dict[str, Any] = {
    "encoder": "tiny-bert", "sentences": "graded-sentences", "max_steps": 4, "batch_size": 8,
    "evaluation_interval": 2, "precision": "fp32",
}  # fmt: skip
TRAINED_BEFORE: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "in one process": [
        ("d2cse", {}),
        ("ct", {}),
        ("simcse", {"precision": "bf16"}),
        ("simcse", {"lora_rank": 2}),
        ("simcse", {"gradient_checkpointing": True}),
    ],
    "ddp": [("simcse", {"engine": "ddp"})],
    "ZeRO": [("simcse", {"engine": "deepspeed", "zero": zero}) for zero in (1, 2, 3)],
    "ZeRO 3 that fails": [("simcse", {"engine": "deepspeed", "zero": 3, "learning_rate": 1e30})],
}
"""The trial that a process trains first"""


def computed(store: Path) -> dict[str, Any]:
    """All numbers of the only record of a store, with the digest of its weights."""
    (record,) = Store(store).read().records()
    names = ("history", "dev_before", "dev", "test", "details", "weights_digest", "threads")
    return {name: getattr(record, name) for name in names}


# More than 20 s: each kind of work before it is a training of its own.
@pytest.mark.slow
@pytest.mark.process  # DeepSpeed asks the machine for numactl
def test_what_the_process_has_done_before_changes_nothing(
    environment: dict[str, str], tiny_roberta: Path, tmp_path: Path
) -> None:
    values = SHORT | {"suite": str(write_few_pairs(tmp_path))}
    words = ["run", "simcse", *(f"--set={name}={value}" for name, value in values.items())]
    answer = run_module("harness", *words, "--store", tmp_path / "alone", environment=environment)
    assert answer.code == 0, answer.err
    alone = computed(tmp_path / "alone")

    def check(before: str) -> None:
        store = tmp_path / before
        assert run_verb([*words, "--store", str(store)]) == 0
        assert computed(store) == alone, before

    for before, trainings in TRAINED_BEFORE.items():
        for method, more in trainings:
            # An engine makes this process the only rank of the trial.
            record = attempt(Trial(method, values | more, seed=1), lambda _: None)
            wanted = "failed" if "fails" in before else "finished"
            assert record.status == wanted, record.reason
        check(before)
    torch.set_num_threads(2)
    try:
        other = Trial("simcse", values | {"encoder": str(tiny_roberta)}, seed=0)
        assert attempt(other, lambda _: None).status == "finished"
    finally:
        torch.set_num_threads(1)
    check("another encoder and more threads")
    other_store = str(tmp_path / "other")
    assert run_verb([*words, "--store", other_store, "--seed", "1"]) == 0
    (record,) = Store(Path(other_store)).read().records()
    assert run_verb(["eval", record.key, "--suite", "graded", "--store", other_store]) == 0
    assert run_verb(["export", record.key, str(tmp_path / "model"), "--store", other_store]) == 0
    check("an evaluation and an export")
