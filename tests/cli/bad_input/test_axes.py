"""Axes of a search space that are endless, too long, or not of numbers."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]

GRID = "    grid:\n      learning_rate: [1e-4, 5e-4]\n"
MANY = "more than 10000 configurations"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axis", "part"),
    [
        ("{from: .nan, to: 1, step: 1}", "finite number"),
        ("{from: 0.1, to: .inf, step: 1}", "finite number"),
        ("{from: -.inf, to: 1, step: 0.1}", "finite number"),
        ("{from: 0.1, to: 1, step: .nan}", "finite number"),
        ("{from: 0.1, to: 1, step: .inf}", "finite number"),
        ("{from: 0.1, to: 1.0e+400, step: 1}", "finite number"),
        ("{from: 0.1, to: 1, step: 0}", "greater than 0"),
        ("{from: 0.1, to: 1, step: -1}", "greater than 0"),
        ("{from: true, to: 2, step: 1}", "a number is expected, not true"),
        ("{from: 0.1, to: true, step: 0.1}", "a number is expected, not true"),
        ("{from: 0.1, to: 1, step: true}", "a number is expected, not true"),
        ("{from: a, to: 1, step: 1}", "valid number"),
        ("{from: 0.1, to: 1}", "required"),
        ("{from: 0.1, to: 1, step: 1, by: 2}", "unknown key"),
        ("{from: 1.0e-7, to: 1, step: 1.0e-7, }", ""),
        ("{from: 0.1, to: 1, step: 1.0e-9}", MANY),
        ("{from: 1.0e-300, to: 1.0e+300, step: 1.0e-308}", MANY),
        ("{between: best_three, step: 1}", "best_two"),
        ("{between: best_two, step: .inf}", "finite number"),
        ("{}", "required"),
        ("null", "list"),
        ("0.1", "list"),
        ("[[0.1]]", "valid number"),
        ("[{a: 1}]", "valid number"),
        ("[null]", "valid number"),
        ("[true]", "a number is expected, not true"),
        ("[.inf]", "finite number"),
        ("[2020-01-01]", "valid number"),
    ],
)
def test_axis(axis: str, part: str, refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("[1e-4, 5e-4]", axis)
    refused(["plan", path], line_of(path, "learning_rate"), part)


def hundred(key: str) -> str:
    return f"{key}: {{from: 0.001, to: 0.101, step: 0.001}}"


@pytest.mark.parametrize(
    ("part_of_file", "where", "reason"),
    [
        (
            f"    grid:\n      {hundred('learning_rate')}\n      {hundred('temperature')}\n"
            f"      {hundred('weight_decay')}\n",
            "temperature",
            MANY,
        ),
        ("    rounds:\n      - learning_rate: {from: 1, to: 2, step: 1.0e-9}\n", "1.0e-9", MANY),
        (
            "    rounds:\n      - learning_rate: [0.1, 0.2]\n"
            "      - learning_rate: {between: best_two, step: 1.0e-12}\n",
            "1.0e-12",
            MANY,
        ),
        (
            "    rounds:\n      - learning_rate: [0.1, 0.2]\n"
            "      - learning_rate: {between: best_two, step: 0.01}\n"
            "      - learning_rate: {between: best_two, step: 1.0e-13}\n",
            "1.0e-13",
            MANY,
        ),
        (
            "    rounds:\n      - precision: [fp32, bf16]\n"
            "      - precision: {between: best_two, step: 0.1}\n",
            "step: 0.1",
            "between needs numbers",
        ),
        (
            "    rounds:\n      - learning_rate: [0.1, 0.2]\n      - temperature: [0.1]\n"
            "      - learning_rate: {between: best_two, step: 0.01}\n",
            "best_two",
            "between needs a round before it",
        ),
        ("    rounds: []\n", "rounds", "at least 1 item"),
        ("    rounds: [{}]\n", "rounds", "the round is empty"),
        ("    rounds: [null]\n", "rounds", "valid dictionary"),
        ("    rounds: {a: 1}\n", "rounds", "valid list"),
        ("    grid: [1]\n", "grid", "valid dictionary"),
        ("    grid: learning_rate\n", "grid", "valid dictionary"),
    ],
    ids=[
        "grid", "round", "between", "third-round", "between-words", "skipped", "no-rounds",
        "empty-round", "null-round", "mapping", "grid-list", "grid-word",
    ],
)  # fmt: skip
def test_rounds(
    part_of_file: str,
    where: str,
    reason: str,
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space(GRID, part_of_file)
    refused(["plan", path], line_of(path, where), reason)


@pytest.mark.parametrize(
    "added",
    [
        "setting: [unsup, sup]\nsearch: {seeds: [1, 2]}\n",
        "search: {seeds: [1, 2, 3]}\n",
        f"final: {{seeds: {[*range(150)]}, subsets: {[*range(150)]}}}\n",
    ],
    ids=["settings", "seeds", "subsets"],
)
def test_trials_of_a_space(added: str, refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    axes = "".join(f"      {hundred(key)}\n" for key in ("learning_rate", "temperature"))
    path = space(GRID, f"    grid:\n{axes}")
    text = path.read_text().replace("0.101", "0.1")
    kept = [
        line for line in text.splitlines() if not line.startswith(("setting", "search", "final"))
    ]
    path.write_text(added + "\n".join(kept) + "\n")
    refused(["plan", path], line_of(path, "simcse:"), "at most 20000 can be planned")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "sampler"),
    [
        ("{low: .nan, high: 1}", "{configurations: 2}"),
        ("{low: 0.1, high: .inf}", "{configurations: 2}"),
        ("{low: true, high: 2}", "{configurations: 2}"),
        ("{low: 0.1, high: 1, step: .inf}", "{configurations: 2}"),
        ("{low: 0.1, high: 1, log: 2}", "{configurations: 2}"),
        ("[true, false]", "{configurations: 2}"),
        ("[[1]]", "{configurations: 2}"),
        ("3", "{configurations: 2}"),
        ("{low: 0.1, high: 1}", "{configurations: 0}"),
        ("{low: 0.1, high: 1}", "{configurations: true}"),
        ("{low: 0.1, high: 1}", "{configurations: 1.5}"),
        ("{low: 0.1, high: 1}", "{configurations: .inf}"),
        ("{low: 0.1, high: 1}", "{configurations: 10000000}"),
        ("{low: 0.1, high: 1}", "{configurations: 99999999999999999999999}"),
        ("{low: 0.1, high: 1}", "{name: tpf, configurations: 1}"),
        ("{low: 0.1, high: 1}", "{configurations: 1, seed: -1}"),
        ("{low: 0.1, high: 1}", "{configurations: 1, seed: 99999999999999999999999}"),
        ("{low: 0.1, high: 1}", "{}"),
        ("{low: 0.1, high: 1}", "[]"),
    ],
)
def test_range_or_sampler(choice: str, sampler: str, refused: Refused, space: SpaceFile) -> None:
    path = space(GRID, f"    ranges:\n      learning_rate: {choice}\n    sampler: {sampler}\n")
    refused(["plan", path], f"{path}, line ", "methods.simcse")
