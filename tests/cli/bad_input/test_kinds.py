"""Values of another kind: `true` for a number, numbers beyond 64 bits, lists for words."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("learning_rate=true", "valid number"),
        ("weight_decay=off", "valid number"),
        ("batch_size=true", "valid integer"),
        ("epochs=yes", "valid number"),
        ("max_steps=true", "valid integer"),
        ("warmup_ratio=on", "valid number"),
        ("gradient_checkpointing=7", "boolean"),
        ("learning_rate=.nan", "valid number"),
        ("learning_rate=nan", "finite number"),
        ("learning_rate=.inf", "valid number"),
        ("learning_rate=-.inf", "valid number"),
        ("learning_rate=1.0e+400", "finite number"),
        ("temperature=0", "greater than 0"),
        ("epochs=1.0e+300", "less than or equal to 1000000"),
        ("batch_size=9223372036854775808", "beyond 64 bits"),
        ("batch_size='9223372036854775808'", "valid integer"),
        ("max_steps=18446744073709551616", "beyond 64 bits"),
        ("max_steps=1.0e+30", "max_steps"),
        ("evaluation_interval=1180591620717411303424", "beyond 64 bits"),
        ("max_length=9223372036854775808", "less than or equal to 512"),
        ("setting=[unsup]", "setting"),
        ("setting={a: 1}", "setting"),
        ("precision=[fp32]", "precision"),
        ("precision={a: 1}", "precision"),
        ("suite=[graded]", "unknown suite"),
        ("suite=3", "unknown suite"),
    ],
)
def test_set_to_another_kind(given: str, part: str, refused: Refused) -> None:
    target = ["simcse", "--encoder", "tiny-bert"]
    refused(["run", *target, "--set", given], given.partition("=")[0], part)


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
        ("setting: unsup", "setting: [[unsup]]"),
        ("setting: unsup", "setting: []"),
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
