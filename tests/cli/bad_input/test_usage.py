"""What the parser of the command line refuses, and names that no file and no method can have."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]

DIGITS = "9" * 5000
GRADED = ("--set", "suite=graded")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nosuch"], "No such command 'nosuch'"),
        (["sweeep", "quickstart"], "sweep"),
        (["--nope"], "No such option: --nope"),
        (["sweep"], "Missing argument"),
        (["run"], "harness run --help"),
        (["show"], "Missing argument"),
        (["list"], "Missing argument"),
        (["compare", "tiny-bert"], "Missing argument"),
        (["retrieve", "tiny-bert"], "Missing argument"),
        (["run", "simcse", "--sed", "1"], "--seed"),
        (["run", "simcse", "more"], "unexpected extra argument"),
        (["run", "simcse", "--seed"], "--seed"),
        (["run", "simcse", "--seed", "one"], "valid integer"),
        (["run", "simcse", "--seed", "1e3"], "valid integer"),
        (["run", "simcse", "--seed", "true"], "valid integer"),
        (["run", "simcse", "--seed", DIGITS], "maximum size"),
        (["run", "simcse", "--seed", "9" * 30], "whole numbers from 0 to 4294967295"),
        (["plan", "quickstart", "--seeds", DIGITS], "whole numbers"),
        (["plan", "quickstart", "--subsets", DIGITS], "whole numbers"),
        (["plan", "quickstart", "--configurations", "0"], "--configurations"),
        (["plan", "quickstart", "--configurations", "-1"], "--configurations"),
        (["plan", "quickstart", "--configurations", "1.5"], "--configurations"),
        (["plan", "quickstart", "--configurations", "9" * 30], "1000000"),
        (["plan", "quickstart", "--cpus-per-trial", "0"], "--cpus-per-trial"),
        (["plan", "quickstart", "--cpus-per-trial", "nan"], "--cpus-per-trial"),
        (["plan", "quickstart", "--cpus-per-trial", "inf"], "finite"),
        (["plan", "quickstart", "--cpus-per-trial", "1e400"], "finite"),
        (["sweep", "quickstart", "--gpus-per-trial", "nan"], "--gpus-per-trial"),
        (["sweep", "quickstart", "--gpus-per-trial", "-1"], "--gpus-per-trial"),
        (["sweep", "quickstart", "--dry-run=maybe"], "--dry-run"),
        (["sweep", "quickstart", "--memory-per-trial", "inf"], "finite"),
        (["sweep", "quickstart", "--memory-per-trial", "lots"], "--memory-per-trial"),
        (["sweep", "quickstart", "--trial-timeout", "soon"], "90s, 30m or 2h"),
        (["sweep", "quickstart", "--trial-timeout", "0s"], "at least one second"),
        (["sweep", "quickstart", "--trial-timeout", "9" * 5000 + "h"], "90s, 30m or 2h"),
        (["list", "methodz"], "'methods'"),
        (["table", "--format", "pdf"], "'latex'"),
        (["eval", "tiny-bert", "--pooling", "max"], "'mean'"),
        (["retrieve", "tiny-bert", "q", "--count", "0"], "--count"),
        (["retrieve", "tiny-bert", "q", "--count", "many"], "--count"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_usage(arguments: list[str], part: str, refused: Refused) -> None:
    """The parser's own messages are boxes of several lines."""
    refused([*arguments, "--store", "none"], part)


ODD = ["x" * 5000, "/".join(["d" * 200] * 40), "a\nb", os.fsdecode(b"\xff\xfe")]
"""Names that are too long, alone or as a path, that have a line end, or that are no text"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "NAME"],
        ["check", "NAME"],
        ["run", "pooling", "--encoder=NAME.", *GRADED],
        ["run", "simcse", "--set", "NAME=1"],
        ["plan", "NAME"],
        ["plan", "NAME.yaml"],
        ["table", "--paper=NAME"],
        ["eval", "NAME", "--suite", "graded"],
        ["eval", "tiny-bert", "--suite=NAME"],
        ["eval", "tiny-bert", "--suite=NAME.py"],
        ["show", "NAMEx"],
        ["new", "here/NAME-"],
    ],
    ids=" ".join,
)
def test_odd_name(arguments: list[str], refused: Refused) -> None:
    for name in ODD:
        refused([word.replace("NAME", name) for word in arguments])


@pytest.mark.parametrize("field", ["sentences", "suite"])
@pytest.mark.parametrize("name", ["x" * 5000, "a\nb", "a\0b.txt"], ids=["long", "line-end", "zero"])
def test_odd_value(field: str, name: str, refused: Refused, space: SpaceFile) -> None:
    refused(["plan", space(), "--set", f"{field}={json.dumps(name)}"])


@pytest.mark.parametrize("name", ["m" * 300, "a/" * 2000 + "m"], ids=["long", "long-path"])
def test_new_with_a_long_name_makes_no_folder(name: str, refused: Refused, tmp_path: Path) -> None:
    refused(["new", tmp_path / "a" / name])


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../tiny-bert",
        "tiny-bert/..",
        "a/../tiny-bert",
        "harness/../../models/tiny-bert",
        "a/./b",
        "a//b",
        "/tiny-bert",
        "~nobody-at-all/x",
        "",
        "a\nb",
    ],
)
def test_name_that_leaves_the_mirror(name: str, refused: Refused) -> None:
    refused(["eval", name, "--suite", "graded"])


def test_name_of_an_encoder_that_leaves_the_mirror(refused: Refused) -> None:
    arguments = ["run", "pooling", "--encoder", "a/../tiny-bert", *GRADED]
    refused(arguments, '"a/../tiny-bert" cannot be the name of a model', "ORGANISATION/NAME")


@pytest.mark.parametrize("name", ["a/../tiny-bert", "tiny-bert/..", "a\\nb", "x" * 5000])
def test_plan_refuses_a_name_that_no_model_can_have(
    name: str, refused: Refused, space: SpaceFile
) -> None:
    """A model that is only missing is named under the plan."""
    refused(["plan", space("[tiny-bert]", f'["{name}"]')])
