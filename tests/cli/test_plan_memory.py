"""`harness plan` says what each worker needs, and refuses what no GPU of this machine has."""

from typing import Any

import pytest

from harness.sweeps import printed_plan
from harness.sweeps.machines import Gpu, Machine
from tests.cli.conftest import Shown

LARGE = ("plan", "simcse", "quickstart", "--published", "--encoder", "bert-large-uncased")
"""4 x 334,092,288 bytes of weights, which one worker of a trial needs four times"""
EIGHT = (*LARGE, "--set", "engine=ddp", "--set", "workers=8")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """machine(found): this machine is like that."""
    return lambda found: monkeypatch.setattr(printed_plan, "this_machine", lambda: found)


def memory_of(out: str) -> list[str]:
    """The last column of the lines about rounds and final seeds."""
    return [line.split()[-1] for line in out.splitlines() if "seeds: " in line]


@pytest.mark.parametrize(
    ("engine", "gib"),
    [
        ((), "5.0"),
        (("engine=ddp", "workers=8"), "5.0"),
        (("engine=deepspeed", "workers=8", "zero=1"), "2.3"),
        (("engine=deepspeed", "workers=8", "zero=2"), "1.2"),
        (("engine=deepspeed", "workers=8", "zero=3"), "0.6"),
    ],
)
def test_a_plan_says_what_each_worker_needs(
    shown: Shown, machine: Any, engine: tuple[str, ...], gib: str
) -> None:
    machine(Machine(2**40))
    values = [part for value in engine for part in ("--set", value)]
    out = shown(*LARGE, *values, "--store", "none")
    assert memory_of(out) == [gib]
    assert "GiB: what each worker of a trial needs at least" in out
    assert max(map(len, out.splitlines()[1:4])) <= 100


def test_a_plan_refuses_what_no_gpu_has_and_names_the_stage(harness: Any, machine: Any) -> None:
    machine(Machine(2**40, (Gpu("A", 4096), Gpu("B", 2048))))
    answer = harness(*EIGHT, "--store", "none")
    assert answer.code == 2
    assert answer.out == ""
    assert "take 5.0 GiB in each of its 8 workers, and the largest GPU (A) has 4.0" in answer.err
    assert "engine=deepspeed with zero=1 would need at least 2.3 GiB" in answer.err


def test_a_plan_says_what_is_offloaded(harness: Any, shown: Shown, machine: Any) -> None:
    """Four and a half times the weights, in the memory of all machines together."""
    machine(Machine(4 * 2**30, (Gpu("A", 4096),)))
    offloads = ("--set", "engine=deepspeed", "--set", "offload_optimiser=true")
    out = shown(*EIGHT, *offloads, "--store", "none")
    said = "Offloaded: at least 5.6 GiB of host memory for a trial's workers"
    assert f"{said}; this machine has 4.0 GiB\n" in out
    machine(Machine(8 * 2**30, (Gpu("A", 4096),)))
    assert f"{said}\n" in harness(*EIGHT, *offloads, "--store", "none").out


def test_without_gpus_a_plan_says_what_is_too_large_here(shown: Shown, machine: Any) -> None:
    """The sweep may run on other machines."""
    machine(Machine(2**30))
    out = shown(*EIGHT, "--store", "none")
    assert "Too large for this machine: simcse unsup bert-large-uncased" in out
    assert "engine=deepspeed with zero=3 would need at least 0.6 GiB" in out


def test_the_size_of_an_unknown_encoder_is_not_known(shown: Shown, machine: Any) -> None:
    machine(Machine(2**30, (Gpu("A", 1),)))
    out = shown(*LARGE[:-1], "someone/not-here", "--store", "none")
    assert memory_of(out) == ["?"]
