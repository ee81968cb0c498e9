"""The measurements for a GPU are rehearsed on a CPU, so that they work when one is there."""

import os
import re
from pathlib import Path

import pytest

from tests.programs import run_module

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks/gpu"
COMMANDS = {"gpu/measure.py", "harness", "nvidia-smi", "nsys", "py-spy"}


# More than 20 s: the rehearsal of every measurement that a GPU is to make, in a process of its own.
@pytest.mark.process
@pytest.mark.slow
def test_parts_print_their_numbers() -> None:
    parts = ["training", "attention", "graphs", "evaluation", "packing", "cap", "settings", "tests"]
    # The script imports what lies beside it.
    done = run_module("measure", "--device", "cpu", *parts, environment=os.environ, folder=FOLDER)
    assert done.code == 0, done.out + done.err
    assert re.findall(r"^# (\w+)$", done.out, re.M) == parts
    for number in (
        r"batch 64: \d+ sentences/s, sentence-transformers \d+: [\d.]+ times as fast",
        r"base, batch 512: \d+ sentences/s, \d+% of the peak",
        r"rows of any length: \S+e-\d+ and \S+e-\d+ from states and gradients in float32",
        r"batch 64: [\d.]+ ms a captured step, [\d.]+ ms without graphs: [\d.]+ times as fast",
        r"losses of \d+ steps: 0\.0e\+00 apart from those of the same steps",
        r"500 texts: [\d.]+ s, sentence-transformers",
        r"1 at a time: \d+ trials an hour",
        r"fp16: [\d.]+ of the speed",
        r"\d+ tests collected",
    ):
        assert re.search(number, done.out), number


def test_what_was_not_measured_has_its_command() -> None:
    page = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    begin = page.index("**not measured**")
    lines = re.split(r"\n- ", page[begin : page.index("\n\n", page.index("\n- ", begin))])[1:]
    source = (FOLDER / "measure.py").read_text(encoding="utf-8")
    parts = re.findall(r'"(\w+)": \w+', source[source.index("\nPARTS") :])
    assert len(lines) > 10
    assert {"training", "sts"} <= {*parts}
    for line in lines:
        commands = [" ".join(command.split()) for command in re.findall(r"`([^`]+)`", line)]
        assert any(command.split()[0] in COMMANDS for command in commands), line
        for command in commands:
            if asked := re.fullmatch(r"(?:.* )?\S*gpu/measure\.py (.+)", command):
                assert {*asked[1].split()} <= {*parts}, command


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
    """Trials of a frozen encoder, which it computes in one pass."""
    options = [argument for value in (*values, "precision=fp32") for argument in ("--set", value)]
    common = ["--encoder", "tiny-bert", "--trials", "3", "--steps", "2", "--batch", "8"]
    # The benchmark imports what lies beside it.
    done = run_module(
        "fused", "--method", method, *common, *options, environment=os.environ, folder=FOLDER
    )
    assert done.code == 0, done.err
    apart = {name: float(value) for name, value in re.findall(r"^  (.+): (\S+)$", done.out, re.M)}
    assert apart["losses and norms of gradients, first step"] < 1e-6
    # A share of the norm of each tensor: the rows of other trials change the order of sums.
    assert apart["gradients, first step"] < 5e-6
    assert apart["losses and norms of gradients, all steps"] < 1e-3  # Adam enlarges last digits
    assert apart["dev scores"] < 1e-3  # two pairs with nearly one cosine may change places
