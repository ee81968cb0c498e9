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
def test_set_to_what_is_no_yaml(value: str, refused: Refused, space: SpaceFile) -> None:
    refused(["sweep", space(), "--set", f"learning_rate={value}"], "--set", "not valid YAML")


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


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("learning_rate=true", "a number is expected, not true"),
        ("weight_decay=off", "a number is expected, not false"),
        ("batch_size=true", "batch_size = True"),
        ("epochs=yes", "a number is expected, not true"),
        ("max_steps=true", "a number is expected, not true"),
        ("warmup_ratio=on", "a number is expected, not true"),
        ("gradient_checkpointing=7", "boolean"),
        ("learning_rate=.nan", "finite number"),
        ("learning_rate=nan", "finite number"),
        ("learning_rate=.inf", "finite number"),
        ("learning_rate=-.inf", "finite number"),
        ("learning_rate=1.0e+400", "finite number"),
        ("temperature=0", "greater than 0"),
        ("epochs=1.0e+300", "less than or equal to 1000000"),
        ("batch_size=9223372036854775808", "beyond 64 bits"),
        ("batch_size='9223372036854775808'", "beyond 64 bits"),
        ("max_steps=18446744073709551616", "beyond 64 bits"),
        ("max_steps=1.0e+30", "max_steps"),
        ("evaluation_interval=1180591620717411303424", "beyond 64 bits"),
        ("max_length=9223372036854775808", "less than or equal to 512"),
        ("setting=[unsup]", "setting"),
        ("setting={a: 1}", "setting"),
        ("precision=[fp32]", "precision"),
        ("precision={a: 1}", "precision"),
        ("suite=[graded]", "valid string"),
        ("suite=3", "valid string"),
        ("sentences=3", "valid string"),
        ("sentences=[a]", "valid string"),
        ("sentences=null", "valid string"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "plan"])
def test_set_to_another_kind(
    verb: str, given: str, part: str, refused: Refused, space: SpaceFile
) -> None:
    target: list[object] = {"run": ["simcse", "--encoder", "tiny-bert"], "plan": [space()]}[verb]
    refused([verb, *target, "--set", given], given.partition("=")[0], part)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seeds: [42]", "seeds: [true]"),
        ("seeds: [42]", "seeds: [1.5]"),
        ("seeds: [42]", "seeds: [.inf]"),
        ("seeds: [42]", "seeds: [99999999999999999999999]"),
        ("seeds: [42]", "seeds: [[1]]"),
        ("seeds: [42]", "seeds: {from: 1, to: 2}"),
        ("seeds: [42]", "seeds: null"),
        ("max_steps: 2", "max_steps: true"),
        ("max_steps: 2", "max_steps: 18446744073709551616"),
        ("max_steps: 2", "epochs: .inf"),
        ("batch_size: 8", "batch_size: true"),
        ("sentences: graded-sentences", "sentences: 3"),
        ("setting: unsup", "setting: [unsup]"),
        ("setting: unsup", "setting: true"),
        ("setting: unsup", "setting: !!binary aGVsbG8="),
        ("setting: unsup", "3: unsup"),
        ("setting: unsup", "null: unsup"),
        ("setting: unsup", "2020-01-01: unsup"),
        ("suite: graded\n", "suite: [graded]\n"),
        ("suite: graded\n", "suite: null\n"),
        ("{metric: graded-dev}", "graded-dev"),
        ("metric: graded-dev", "metric: 3"),
        ("[tiny-bert]", "tiny-bert"),
        ("[tiny-bert]", "[3]"),
        ("[tiny-bert]", "[null]"),
        ("[tiny-bert]", "[true]"),
        ("[tiny-bert]", "[]"),
        ("[tiny-bert]", '[""]'),
        ("  simcse:", "  3:"),
        ("  simcse:", "  null:"),
        ("  simcse:", "  ../simcse:"),
        ("  simcse:", "  " + "m" * 1000 + ":"),
        ("    grid:\n      learning_rate: [1e-4, 5e-4]", "    - 1"),
        ("learning_rate: [1e-4, 5e-4]", "3: [1]"),
    ],
)
def test_part_of_another_kind(old: str, new: str, refused: Refused, space: SpaceFile) -> None:
    path = space(old, new)
    refused(["plan", path], path if '""' not in new else "cannot be the name of a model")
