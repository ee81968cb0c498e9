"""`harness plan` says what is missing, what each worker needs, and what it takes on any device.

It refuses what no GPU of this machine has.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sweeps import machines
from harness.sweeps.devices import named_device
from tests.cli.conftest import Harness, Shown, check_sentence, sets

Plant = Callable[..., None]

LARGE = ("plan", "simcse", "quickstart", "--published", "--encoder", "bert-large-uncased")
"""4 x 334,092,288 bytes of weights, which one worker of a trial needs four times"""
EIGHT = (*LARGE, "--set", "workers=8", "--set")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plant:
    """machine(bytes, GPU=MiB, ...): this machine has so much memory, and these GPUs."""

    def plant(memory: int, **gpus: int) -> None:
        proc, program = tmp_path / "proc", tmp_path / "nvidia-smi"
        (proc / "self").mkdir(parents=True, exist_ok=True)
        kib = memory // 1024
        (proc / "meminfo").write_text(f"MemTotal: {kib} kB\nMemAvailable: {kib} kB\n")
        (proc / "self" / "cgroup").write_text("0::/\n")
        monkeypatch.setattr(machines, "PROC", proc)
        monkeypatch.setattr(machines, "GROUPS", proc)
        lines = "".join(f"echo '{name}, {mib}'\n" for name, mib in gpus.items())
        program.write_text(f"#!/bin/sh\n{lines or 'exit 9'}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return plant


def memory_of(out: str) -> list[str]:
    """The last column of the lines about rounds and final seeds."""
    return [line.split()[-1] for line in out.splitlines() if "seeds: " in line]


def test_a_plan_says_what_each_worker_needs(shown: Shown, machine: Plant) -> None:
    machine(2**40)
    for engine, gib in (
        ({}, "5.0"),
        ({"engine": "ddp", "workers": 8}, "5.0"),
        ({"engine": "deepspeed", "workers": 8, "zero": 1}, "2.3"),
        ({"engine": "deepspeed", "workers": 8, "zero": 2}, "1.2"),
        ({"engine": "deepspeed", "workers": 8, "zero": 3}, "0.6"),
    ):
        out = shown(*LARGE, *sets(**engine), "--store", "none")
        assert memory_of(out) == [gib]
        assert "GiB: what each worker of a trial needs at least" in out
        assert max(map(len, out.splitlines()[1:4])) <= 100
    out = shown(*LARGE[:-1], "someone/not-here", "--store", "none")
    assert memory_of(out) == ["?"], "the size of an unknown encoder is not known"


def test_a_plan_refuses_what_no_gpu_has_and_names_the_stage(
    harness: Harness, shown: Shown, machine: Plant
) -> None:
    """Without GPUs it says so, because the sweep may run on other machines."""
    machine(2**30)
    out = shown(*EIGHT, "engine=ddp", "--store", "none")
    assert "Too large for this machine: simcse unsup bert-large-uncased" in out
    assert "engine=deepspeed with zero=3 would need at least 0.6 GiB" in out
    machine(2**40, A=4096, B=2048)
    answer = harness(*EIGHT, "engine=ddp", "--store", "none")
    assert answer.out == ""
    gib = "take 5.0 GiB in each of its 8 workers, and the largest GPU (A) has 4.0"
    check_sentence(answer, gib, "engine=deepspeed with zero=1 would need at least 2.3 GiB")


def test_a_plan_says_what_is_offloaded(shown: Shown, machine: Plant) -> None:
    """Four and a half times the weights, in the memory of all machines together."""
    words = (*EIGHT, "engine=deepspeed", *sets(offload_optimiser="true"), "--store", "none")
    sentence = "Offloaded: at least 5.6 GiB of host memory for a trial's workers"
    for gib, more in ((4, "; this machine has 4.0 GiB"), (8, "")):
        machine(gib * 2**30, A=4096)
        assert f"{sentence}{more}\n" in shown(*words)


def test_a_named_device_is_asked_for_its_own_memory(
    harness: Harness, shown: Shown, store: Path
) -> None:
    """The sentence about what is missing comes first, and the time last."""
    words = ("plan", "simcse", "quickstart", "--published", "--store", store)
    refused = harness(*words, "--encoder", "mistralai/Mistral-7B-v0.1", "--device", "h100")
    check_sentence(refused, f"the largest GPU ({named_device('h100').title}) has 80.0 GiB")
    last = shown(*words, "--device", "t4", "--gpus", 4).splitlines()[-1]
    assert "GPU hours on one NVIDIA T4" in last
    assert "on this machine" in last
    first, *_, last = shown("plan", "simcse", "unsup", "--store", store).splitlines()
    assert first.startswith(("Not here yet:", "Smaller than the paper's:"))
    assert last.startswith("Time (an estimate):")
    assert "to rehearse" in last


@pytest.mark.slow
def test_all_tables_of_the_papers(shown: Shown, tmp_path: Path) -> None:
    out = shown("plan", "--papers", "--device", "a100", "--store", tmp_path / "store")
    lines = out.splitlines()[1:]
    assert [line.partition(",")[0] for line in lines[:5]] == [
        "clsr", "d2cse", "dcpcse", "diffaug", "diffcse",
    ]  # fmt: skip
    assert lines[5].startswith("in all: ")
    assert all("GPU hours on one NVIDIA A100" in line for line in lines)


@pytest.mark.parametrize(
    ("value", "heeded"),
    [
        ("sentences=graded-sentences", True),
        ("corpus=graded-sentences", True),
        ("triplets=graded-triplets", False),
    ],
)
def test_a_plan_names_what_changes_nothing(harness: Harness, value: str, heeded: bool) -> None:
    """`corpus` is the field of each method that names its training corpus."""
    answer = harness("plan", "simcse", "unsup", "--encoder", "tiny-bert", "--set", value)
    name = value.partition("=")[0]
    notice = f"--set {name} changes nothing in these searches: it is left out\n"
    assert answer.code == 0, answer.err
    assert answer.err == ("" if heeded else notice)
