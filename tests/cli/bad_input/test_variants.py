"""Mistakes in the variants of a method, in its setting and in its encoders."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]
GRID = "    grid:\n      learning_rate: [1e-4, 5e-4]\n"


@pytest.mark.parametrize(
    ("variants", "part"),
    [
        ("    variants: {}", "at least 1 item"),
        ("    variants: [a, b]", "dictionary"),
        ("    variants: {a: 3}", "dictionary"),
        ("    variants: {64: {batch_size: 64}}", 'write "64" in quotes'),
        ("    variants: {'': {batch_size: 64}}", "the name of a variant is a text"),
        ("    variants: {a: {batch_siz: 64}}", 'did you mean "batch_size"?'),
        ("    variants: {a: {batch_size: many}}", "batch_size = 'many'"),
        ("    variants: {a: {batch_size: 0}}", "greater than or equal to 2"),
        ("    variants: {a: {setting: sup}}", "setting is not a hyperparameter"),
        ("    variants: {a: {encoder: x}}", "write `encoders:`"),
        ("    variants: {a: {seed: 1}}", "the seed is not a hyperparameter"),
        ("    variants: {a: {head: round}}", "head = 'round'"),
        ("    variant: {a: {batch_size: 64}}", 'did you mean "variants"?'),
    ],
)
def test_variants(
    variants: str, part: str, refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space(GRID, f"{variants}\n")
    refused(["sweep", path], line_of(path, variants), part)


def test_a_variant_names_the_line_of_its_value(
    refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    variants = "    variants:\n      good: {epochs: 2}\n      bad:\n        epochs: 0\n"
    path = space(GRID, variants)
    refused(["plan", path], line_of(path, "epochs: 0"), "variants.bad.epochs", "greater than 0")


def test_values_that_do_not_go_together_name_the_variant(
    refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    variants = "  diffcse:\n    variants:\n      next: {objective: none, contrastive: false}\n"
    path = space("  simcse:\n" + GRID, variants)
    refused(
        ["plan", path], line_of(path, "next:"), "methods.diffcse.variants.next", "discriminator"
    )


def test_a_searched_value_in_a_variant(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("    grid:", "    variants: {a: {learning_rate: 1e-3}}\n    grid:")
    refused(["sweep", path], line_of(path, "variants"), "learning_rate is searched as well")


def test_a_variant_that_is_written_twice(
    refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space("    grid:", "    variants:\n      a: {}\n      a: {epochs: 2}\n    grid:")
    refused(["sweep", path], line_of(path, "a: {epochs"), "a is written twice")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("setting: unsup", "setting: unsupervised", "'unsup'"),
        ("setting: unsup", "setting: [unsup, super]", "'unsup'"),
        ("setting: unsup", "setting: []", "at least 1 item"),
        ("    grid:", "    setting: supper\n    grid:", "'unsup'"),
        ("    grid:", "    encoders: []\n    grid:", "at least 1 item"),
        ("    grid:", "    encoders: tiny-bert\n    grid:", "list"),
    ],
)
def test_setting_and_encoders(
    old: str, new: str, part: str, refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space(old, new)
    refused(["sweep", path], line_of(path, new.partition("\n")[0]), part)


def test_a_setting_that_a_method_does_not_have(
    refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space("methods:\n", "methods:\n  diffaug: {setting: unsup}\n")
    refused(["sweep", path], line_of(path, "diffaug"), "setting = 'unsup'")


def test_published_values_are_not_searched(refused: Refused, space: SpaceFile) -> None:
    refused(["sweep", space(), "--published", "--configurations", "2"], "--published", "no meaning")
