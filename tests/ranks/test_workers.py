"""Trials with several workers: one that dies, other numbers of them, and sweeps that mix sizes."""

import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.training.saved_state import SavedState
from harness.trials.record import Record
from harness.trials.run import CHECKPOINT
from harness.trials.store import Store
from tests.clusters import cluster, start_node
from tests.programs import Answer, run_module
from tests.sweeping import TRAINED, write_few_pairs, write_space

pytestmark = [pytest.mark.slow, pytest.mark.process]

FALLS_AT = 6
"""The step at which rank 1 ends its process, once"""
FALL = f"""
        self.count = getattr(self, "count", 0) + 1
        if self.count == 2:
            print(f"rank {{rank_number()}} counts", flush=True)
        if rank_number() == 1 and self.count == {FALLS_AT} and not Path(REPAIRED).exists():
            Path(REPAIRED).touch()
            os._exit(7)
"""
METHODS = """\
  falling:
    variants:
      alone: {learning_rate: 0.01}
      two: {learning_rate: 0.02, engine: ddp, workers: 2}
      also alone: {learning_rate: 0.03}
"""


def falling(folder: Path) -> Path:
    """The file of a method whose second worker dies in its first attempt."""
    path = folder / "falling.py"
    begin = "    def losses(self, batch, stage):"
    source = TRAINED.replace(begin, begin + FALL)
    constants = f"PAUSE = 0.2\nREPAIRED = {str(path) + '.fell'!r}\n"
    path.write_text(f"from harness.ranks import rank_number\n{constants}{source}", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(environment: dict[str, str]) -> Callable[..., Answer]:
    """run(plugin, store, hyperparameter=value, ...): `harness run`, a checkpoint at every step."""

    def call(plugin: Path, store: Path, **values: object) -> Answer:
        fixed = {
            "suite": write_few_pairs(plugin.parent), "sentences": "graded-sentences",
            "max_steps": 12, "precision": "fp32", "evaluation_interval": 3, "learning_rate": 0.05,
        }  # fmt: skip
        given = [f"--set={name}={value}" for name, value in {**fixed, **values}.items()]
        return run_module(
            "harness", "run", plugin, "--encoder", "tiny-bert", "--store", store, *given,
            environment=environment | {"HARNESS_CHECKPOINT_MINUTES": "0"},
        )  # fmt: skip

    return call


@pytest.fixture(scope="module")
def undisturbed(run: Callable[..., Answer], tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The record of the trial in one process that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    answer = run(falling(folder), folder / "store")
    assert answer.code == 0, answer.out + answer.err
    [record] = Store(folder / "store").read().records()
    return record


DDP_2 = {"engine": "ddp", "workers": 2}
ZERO_3 = {
    "engine": "deepspeed", "workers": 2, "zero": 3,
    "deepspeed": {"zero_optimization": {"sub_group_size": 20_000}},
}  # fmt: skip
ZERO_2 = {
    "engine": "deepspeed", "workers": 2, "zero": 2,
    "deepspeed": {"zero_optimization": {"reduce_bucket_size": 5000}},
}  # fmt: skip
FSDP = {"engine": "fsdp", "workers": 2}
GOING_ON = [
    (DDP_2, [{"engine": "single"}, {"engine": "ddp", "workers": 4}]),
    (ZERO_3, [ZERO_2]),
    (ZERO_2, [FSDP]),
    (FSDP, [ZERO_3, {"engine": "single"}]),
]
"""Ways to begin a trial, and how copies of what it has left go on"""


# More than 20 s: each engine goes on in processes of its own, which load DeepSpeed.
@pytest.mark.parametrize(("first", "others"), GOING_ON, ids=["ddp", "zero-3", "zero-2", "fsdp"])
def test_a_lost_worker_and_other_engines(
    run: Callable[..., Answer], undisturbed: Record, tmp_path: Path, first: Any, others: Any
) -> None:
    """The method has no encoder of harness, so that all workers draw the dropout of one process.

    Adam's state shows in what follows: at another step, or empty, it makes other updates.
    """
    plugin, store = falling(tmp_path), tmp_path / "store"
    lost = run(plugin, store, **first)
    assert lost.code == 1, lost.out + lost.err
    assert "worker 2 of 2: it ended with the exit code 7" in lost.err
    assert "goes on from the checkpoint" in lost.err
    assert "worker 2 of 2: rank 1 counts" in lost.err.splitlines()
    assert not Store(store).read().records()
    [checkpoint] = store.glob(f".running/*/{CHECKPOINT}")
    begun = SavedState.read(checkpoint).facts["step"]
    assert begun > 0
    for number, engine in enumerate(others):
        copy = shutil.copytree(store, tmp_path / f"store-{number}")
        answer = run(plugin, copy, **engine)
        assert answer.code == 0, answer.out + answer.err
        assert "begins at step 0" not in answer.err, answer.err
        steps = [int(step) for step in re.findall(r"^step (\d+)/12", answer.out, re.MULTILINE)]
        assert min(steps) > begun
        evaluated = [point["step"] for point in undisturbed.history if point["metric"] == "dev"]
        assert min(set(steps) & set(evaluated)) == min(each for each in evaluated if each > begun)
        [record] = Store(copy).read().records()
        assert (record.steps, record.engine["engine"]) == (12, engine["engine"])
        assert record.configuration.keys().isdisjoint(record.engine)
        for parameters in ("parameters_total", "parameters_trainable", "parameters_added"):
            assert getattr(record, parameters) == getattr(undisturbed, parameters) != 0
        losses = [
            [point["value"] for point in each.history if point["metric"] == "loss"]
            for each in (record, undisturbed)
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        assert record.test["few"] == pytest.approx(undisturbed.test["few"], abs=1e-2)


# More than 20 s: two Rays start on one machine, the head among them.
def test_a_sweep_mixes_sizes_on_two_nodes(tmp_path: Path, environment: dict[str, str]) -> None:
    """The trial of two workers has one on each of two nodes. Its second attempt goes on."""
    values = {"batch_size": 64, "max_steps": 12, "evaluation_interval": 4}
    space, store = write_space(tmp_path, METHODS, **values), tmp_path / "store"
    nodes = environment | {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex * 2,
        "HARNESS_TEST_MARK": uuid.uuid4().hex, "HARNESS_CHECKPOINT_MINUTES": "0",
        "RAY_worker_niceness": "0",
    }  # fmt: skip
    with cluster(nodes, "--num-cpus=1") as address:
        start_node(nodes, f"--address={address}", "--num-cpus=1")
        answer = run_module(
            "harness", "sweep", falling(tmp_path), space, "--store", store, "--address", address,
            "--no-dashboard", environment=nodes,
        )  # fmt: skip
    assert answer.code == 0, answer.out + answer.err
    assert "worker 2 of 2: it died" in answer.out
    records = Store(store).read().records()
    assert sorted(record.engine["workers"] for record in records) == [1, 1, 2]
    assert {(record.status, record.steps) for record in records} == {("finished", 12)}
