"""A real sweep on a cluster that says it has a GPU: the first trial's peak decides who shares it.

The program nvidia-smi and the measured peak are planted, because no machine of the tests has a GPU.
Everything else is as on one: Ray's accounting, the workers, the store.
"""

import os
import platform
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.trials.store import Store
from tests.clusters import cluster
from tests.planted import PLANTED, SECRETS, leaks
from tests.programs import run_module
from tests.sweeping import BAG, one_grid

pytestmark = [pytest.mark.slow, pytest.mark.process]

DEVICE, MEMORY, PEAK = f"cpu ({platform.machine()})", 80_000, 30_000
"""The GPU, and what a trial takes of it: two fit, with a quarter more and CUDA's context"""
SPACE = one_grid("measured", "number", [1, 2, 3])
PLUGIN = f'''\
from pathlib import Path

import ray
import torch
from torch import nn

from harness import plugin
from harness.training.memory import Peak


def measure(peak):
    peak.gpu = PEAK


Peak.measure = measure


class Config(plugin.MethodConfig):
    number: int = 0


{BAG}

class Method(Bag):
    """It notes its share of the GPU; number 3 needs all."""

    def __init__(self, config, kit):
        super().__init__(config, kit)
        gpus = ray.get_runtime_context().get_assigned_resources().get("GPU", 0)
        with Path(NOTES).open("a") as notes:
            notes.write(f"{{config.number}} {{gpus}}\\n")
        if config.number == 3 and gpus < 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
'''


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of all processes, with a program nvidia-smi, a token and a mark."""
    programs = tmp_path_factory.mktemp("programs")
    program = programs / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{DEVICE}, {MEMORY}'\n")
    program.chmod(0o755)
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
        "PATH": f"{programs}:{os.environ['PATH']}", "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": uuid.uuid4().hex * 2, "HARNESS_TEST_MARK": uuid.uuid4().hex, **SECRETS,
    }  # fmt: skip


@pytest.fixture(scope="module")
def address(environment: dict[str, str]) -> Iterator[str]:
    """A cluster of one machine with two CPUs and one GPU, as it says."""
    with cluster(environment, "--num-cpus=2", "--num-gpus=1") as address:
        yield address


# More than 20 s: a cluster starts, two trials compute side by side, and one of them again.
def test_first_peak_decides_the_shares_and_who_needs_more_is_run_again(
    address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    notes, store = tmp_path / "notes.txt", tmp_path / "store"
    plugin = f"PEAK = {PEAK}\nNOTES = {str(notes)!r}\n{PLUGIN}"
    (tmp_path / "measured.py").write_text(plugin, encoding="utf-8")
    (tmp_path / "space.yaml").write_text(SPACE, encoding="utf-8")
    answer = run_module(
        "harness", "sweep", tmp_path / "measured.py", tmp_path / "space.yaml", "--store", store,
        "--address", address, "--no-dashboard", "--gpus-per-trial", "auto",
        environment=environment,
    )  # fmt: skip
    assert answer.code == 0, answer.out + answer.err
    assert PLANTED not in answer.out + answer.err
    assert not leaks(tmp_path, environment)
    assert "waits: it needs more than its share of a GPU" in answer.out
    lines = [line.split() for line in notes.read_text().splitlines()]
    shares = [(int(number), float(gpus)) for number, gpus in lines]
    assert shares[0] == (1, 1.0)
    assert sorted(shares[1:3]) == [(2, 0.5), (3, 0.5)]
    assert [gpus for _, gpus in shares[3:]] == [1.0, 1.0]  # number 3 again, then the final seed
    records = Store(store).read().records()
    assert [record.status for record in records] == ["finished"] * 4
    assert {record.peak_gpu_memory_mib for record in records} == {PEAK}
