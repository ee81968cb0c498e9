"""`harness plan` says first what is missing, and last what it takes on any device."""

from pathlib import Path
from typing import Any

import pytest

from harness.sweeps.devices import named_device
from tests.cli.conftest import Shown


def test_a_named_device_is_asked_for_its_own_memory(
    harness: Any, shown: Shown, tmp_path: Path
) -> None:
    words = ("plan", "simcse", "quickstart", "--published", "--store", tmp_path / "store")
    large = (*words, "--encoder", "mistralai/Mistral-7B-v0.1")
    refused = harness(*large, "--device", "h100")
    assert refused.code == 2
    assert f"the largest GPU ({named_device('h100').title}) has 80.0 GiB" in refused.err
    out = shown(*words, "--device", "t4", "--gpus", 4)
    assert "GPU hours on one NVIDIA T4" in out.splitlines()[-1]
    assert "on this machine" in out.splitlines()[-1]


def test_what_is_missing_comes_first_and_the_time_last(harness: Any, tmp_path: Path) -> None:
    out = harness("plan", "simcse", "unsup", "--store", tmp_path / "store").out.splitlines()
    assert out[0].startswith(("Not here yet:", "Smaller than the paper's:"))
    assert out[-1].startswith("Time (an estimate):")
    assert "to rehearse" in out[-1]


@pytest.mark.slow
def test_all_tables_of_the_papers(shown: Shown, tmp_path: Path) -> None:
    out = shown("plan", "--papers", "--device", "a100", "--store", tmp_path / "store")
    lines = out.splitlines()[1:]
    assert [line.partition(",")[0] for line in lines[:5]] == [
        "clsr", "d2cse", "dcpcse", "diffaug", "diffcse",
    ]  # fmt: skip
    assert lines[5].startswith("in all: ")
    assert all("GPU hours on one NVIDIA A100" in line for line in lines)
