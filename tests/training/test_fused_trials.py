"""Trials of a frozen encoder fused into one pass equal the same trials alone."""

import os
import re
from pathlib import Path

import pytest

from tests.programs import run_module

BENCHMARKS = Path(__file__).parents[2] / "benchmarks/gpu"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("dcpcse", ["mlm=true"]),  # two passes for each loss
        ("dcpcse", ["prompts=shallow"]),
        ("d2cse", ["cls_prompt=true"]),  # its second pass is padded, and edits embeddings
    ],
)
def test_fused_trials_equal_those_alone(method: str, values: list[str]) -> None:
    options = [argument for value in (*values, "precision=fp32") for argument in ("--set", value)]
    given = ["--encoder", "tiny-bert", "--trials", "3", "--steps", "2", "--batch", "8"]
    # The benchmark imports what lies beside it.
    done = run_module(
        "fused", "--method", method, *given, *options, environment=os.environ, folder=BENCHMARKS
    )
    assert done.code == 0, done.err
    found = {name: float(value) for name, value in re.findall(r"^  (.+): (\S+)$", done.out, re.M)}
    assert found["losses and norms of gradients, first step"] < 1e-6
    # A share of the norm of each tensor: the rows of other trials change the order of sums.
    assert found["gradients, first step"] < 5e-6
    assert found["losses and norms of gradients, all steps"] < 1e-3  # Adam enlarges last digits
    assert found["dev scores"] < 1e-3  # two pairs with nearly one cosine may change places
