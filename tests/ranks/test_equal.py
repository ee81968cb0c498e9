"""Several ranks compute what one process computes: losses, gradients and embeddings."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.plugin import registry
from harness.plugin.config import TrainingConfig
from tests.method_cases import CASES, IDS, values_of
from tests.ranks.computed import Computed, computed

LIMIT = 900
"""Seconds for all cases on a busy machine"""
TRAINED = {
    case: (name, options)
    for case, (name, options) in zip(IDS, CASES, strict=True)
    if issubclass(registry.load(name).method.config_type, TrainingConfig)
}
"""The cases of methods that train"""


@pytest.fixture(scope="module")
def cases(
    tiny_encoder: Path, sentences: Path, triplets: Path, pairs: Path
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Case -> method and all its values."""
    found = {}
    for case, (name, options) in TRAINED.items():
        fields = registry.load(name).method.config_type.model_fields
        small = {
            "generator": str(tiny_encoder), "sentences": str(sentences),
            "triplets": str(triplets), "precision": "fp32",
        }  # fmt: skip
        known = {field: value for field, value in small.items() if field in fields}
        found[case] = name, known | values_of(name, options, str(tiny_encoder), triplets, pairs)
    return found


@pytest.fixture(scope="module")
def alone(cases: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Computed]:
    """What this process computes by itself."""
    return {case: computed(*given) for case, given in cases.items()}


def by_ranks(cases: dict[str, Any], count: int, folder: Path, **engine: Any) -> dict[str, Computed]:
    """What so many ranks compute together."""
    results = folder / "results.pt"
    processes = []
    for number in range(count):
        told = folder / f"{number}.json"
        place = {"number": number, "count": count, "address": f"file://{folder}/meeting"}
        chosen = {case: (name, values | engine) for case, (name, values) in cases.items()}
        everything = {"cases": chosen, "place": place | {"threads": 1}, "results": str(results)}
        told.write_text(json.dumps(everything), encoding="utf-8")
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.ranks.computed", str(told)],
                env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            )
        )
    try:
        assert [process.wait(LIMIT) for process in processes] == [0] * count
    finally:
        for process in processes:
            process.kill()
    found: dict[str, Computed] = torch.load(results, weights_only=True)
    return found


def largest_difference(found: Computed, expected: Computed) -> float:
    """The largest difference, in gradients as a share of the largest gradient, or of 1."""
    assert found.keys() == expected.keys()
    scale = max([1.0, *(each.abs().max().item() for each in expected.values() if each.numel())])
    return max((found[part] - each).abs().max().item() / scale for part, each in expected.items())


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("count", [2, 3])
def test_data_parallel_ranks(
    cases: dict[str, Any], alone: dict[str, Computed], count: int, tmp_path: Path
) -> None:
    """With three ranks, the shares are not equally large."""
    found = by_ranks(cases, count, tmp_path, engine="ddp", workers=count)
    wrong = {
        case: difference
        for case in cases
        if (difference := largest_difference(found[case], alone[case])) > 1e-5
    }
    assert not wrong
