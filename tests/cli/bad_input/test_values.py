"""Values that a method refuses, in a search space and behind `--set`."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]


def test_unknown_hyperparameter_in_a_grid(
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space("learning_rate", "learning_rat")
    refused(
        ["sweep", path],
        line_of(path, "learning_rat"),
        '"learning_rat"',
        'did you mean "learning_rate"?',
    )


def test_unknown_hyperparameter_for_all_methods(
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space("max_steps", "max_step")
    refused(["sweep", path], line_of(path, "max_step"), '"max_step"', 'did you mean "max_steps"?')


@pytest.mark.parametrize(
    ("old", "new", "name", "reason"),
    [
        ("[1e-4, 5e-4]", "[1e-4, fast]", "learning_rate = 'fast'", "valid number"),
        ("[1e-4, 5e-4]", "[1e-4, -5e-4]", "learning_rate = '-5e-4'", "greater than 0"),
        ("[1e-4, 5e-4]", "[.nan]", "learning_rate = nan", "finite number"),
        ("batch_size: 8", "batch_size: 1", "batch_size = 1", "greater than or equal to 2"),
        ("batch_size: 8", "batch_size: 8.5", "batch_size = 8.5", "integer"),
        ("precision: fp32", "precision: fp8", "precision = 'fp8'", "'bf16'"),
    ],
)
def test_value_that_the_method_refuses(
    old: str,
    new: str,
    name: str,
    reason: str,
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space(old, new)
    refused(["sweep", path], line_of(path, new), name, reason)


def test_setting_that_the_method_has_not(
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space("setting: unsup", "setting: semisup", "  simcse:", "  d2cse:")
    refused(["sweep", path], line_of(path, "d2cse"), "setting = 'semisup'", "'unsup'")


def test_encoder_among_the_hyperparameters(
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space("learning_rate: [1e-4, 5e-4]", "encoder: [tiny-bert]")
    refused(["sweep", path], line_of(path, "      encoder"), "for the whole space")


@pytest.mark.parametrize("numbers", ["[]", "[one]", "[-1]", f"[{2**32}]"])
@pytest.mark.parametrize("axis", ["seeds", "subsets"])
def test_seeds_and_subsets_of_a_space(
    axis: str,
    numbers: str,
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    axes = {"seeds": "[0]", axis: numbers}
    path = space(
        "final: {seeds: [0, 1]}",
        f"final: {{{', '.join(f'{name}: {axes[name]}' for name in axes)}}}",
    )
    refused(["plan", path], line_of(path, "final"), axis)


@pytest.mark.parametrize("key", ["seed", "subset"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("learning_rate: [1e-4, 5e-4]", "KEY: [0, 1]"),
        ("    grid:\n      learning_rate: [1e-4, 5e-4]", "    rounds:\n      - KEY: [0, 1]"),
        (
            "    grid:\n      learning_rate: [1e-4, 5e-4]",
            "    ranges:\n      KEY: {low: 0, high: 4, step: 1}\n    sampler: {configurations: 2}",
        ),
        ("    grid:", "    set:\n      KEY: 1\n    grid:"),
        ("set: {", "set: {KEY: 1, "),
    ],
    ids=["grid", "rounds", "ranges", "set", "set for all"],
)
def test_seed_or_subset_among_the_hyperparameters(
    old: str,
    new: str,
    key: str,
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space(old, new.replace("KEY", key))
    refused(
        ["plan", path],
        line_of(path, f"{key}:"),
        f"the {key} is not a hyperparameter",
        f"`{key}s:` under search",
    )


@pytest.mark.parametrize("key", ["seed", "subset"])
def test_set_of_the_seed_or_subset_of_a_sweep(key: str, refused: Refused, space: SpaceFile) -> None:
    refused(
        ["sweep", space(), "--set", f"{key}=1"],
        f"--set {key}",
        "not a hyperparameter",
        f"`{key}s:`",
        f"--{key}s",
    )


@pytest.mark.parametrize("text", ["learning_rate", "=3", "learning_rate 3e-5"])
def test_set_without_equals_sign(text: str, refused: Refused, space: SpaceFile) -> None:
    refused(["sweep", space(), "--set", text], f"--set {text}", "key=value")


@pytest.mark.parametrize("value", ["[1, 2", "2026-13-45"])
def test_set_to_what_is_no_number(value: str, refused: Refused, space: SpaceFile) -> None:
    refused(
        ["sweep", space(), "--set", f"learning_rate={value}"], "learning_rate", "a valid number"
    )


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_set_of_an_unknown_key(verb: str, refused: Refused, space: SpaceFile) -> None:
    arguments = (
        [space()]
        if verb == "sweep"
        else ["simcse", "--encoder", "tiny-bert", "--set", "suite=graded"]
    )
    refused(
        [verb, *arguments, "--set", "learning_rat=3e-5"],
        '"learning_rat"',
        'did you mean "learning_rate"?',
    )


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_set_to_a_value_out_of_range(verb: str, refused: Refused, space: SpaceFile) -> None:
    arguments = (
        [space()]
        if verb == "sweep"
        else ["simcse", "--encoder", "tiny-bert", "--set", "suite=graded"]
    )
    refused(
        [verb, *arguments, "--set", "batch_size=1"], "batch_size = 1", "greater than or equal to 2"
    )
