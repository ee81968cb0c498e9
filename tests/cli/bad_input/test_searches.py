"""Samplers, conditions, pruners and objectives of a search space that cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]

GRID = "    grid:\n      learning_rate: [1e-4, 5e-4]\n"
RANGES = """\
    ranges:
      temperature: {low: 0.01, high: 0.1}
      head: [tanh, batchnorm]
      learning_rate: LAST
    sampler: SAMPLER
"""
LAST, SAMPLER = "{low: 1.0e-5, high: 1.0e-3}", "{configurations: 2}"


@pytest.mark.parametrize(
    ("sampler", "reason"),
    [
        ("{name: tpe}", "a sampler needs a budget; write configurations, hours, or both"),
        ("{hours: 0}", "hours: Input should be greater than 0"),
        ("{hours: .inf}", "finite number"),
        ("{hours: true}", "a number is expected, not true"),
        ("{configuration: 2}", 'did you mean "configurations"?'),
        ("{name: cmaes, configurations: 2}", "'cma-es'"),
    ],
)
def test_sampler(
    sampler: str, reason: str, refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space(GRID, RANGES.replace("LAST", LAST).replace("SAMPLER", sampler))
    refused(["plan", path], line_of(path, "sampler"), reason)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (
            "{low: 1.0e-5, high: 1.0e-3, when: {hed: tanh}}",
            'when names "hed", which is no range above this one; above it are: temperature, head',
        ),
        ("{values: [1.0e-5], when: {head: relu}}", "head is never 'relu'; its values: tanh, batch"),
        ("{values: [1.0e-5], when: {temperature: 7}}", "temperature is never 7; its values: 0.01"),
        ("{values: [1.0e-5], when: {temperature: low}}", "temperature is never 'low'"),
        ("{values: [1.0e-5], when: {head: []}}", "at least 1 item"),
        ("{values: [1.0e-5], when: head}", "valid dictionary"),
        ("{values: [], when: {head: tanh}}", "at least 1 item"),
        ("{values: [fast], when: {head: tanh}}", "learning_rate = 'fast'"),
        ("{low: 1.0e-5, high: 1.0e-3, wen: {head: tanh}}", 'unknown key; did you mean "when"?'),
    ],
)
def test_condition(
    choice: str, reason: str, refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space(GRID, RANGES.replace("LAST", choice).replace("SAMPLER", SAMPLER))
    refused(["plan", path], line_of(path, choice), reason)


def test_condition_on_a_range_below(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    text = RANGES.replace("LAST", LAST).replace("SAMPLER", SAMPLER)
    path = space(GRID, text.replace("high: 0.1}", "high: 0.1, when: {head: tanh}}"))
    refused(["plan", path], line_of(path, "when"), 'when names "head", which is no range above')


@pytest.mark.parametrize(
    ("pruner", "reason"),
    [
        ("ash", 'unknown pruner "ash"; did you mean "asha"?'),
        ("{name: hyperband}", 'unknown pruner "hyperband"; valid: asha, median'),
        ("{keep_percent: 25}", 'unknown pruner "None"'),
        ("3", "unknown pruner"),
        ("{name: asha, reduction_facto: 2}", 'did you mean "reduction_factor"?'),
        ("{name: asha, reduction_factor: 1}", "greater than or equal to 2"),
        ("{name: asha, reduction_factor: 2.5}", "valid integer"),
        ("{name: median, first_evaluation: 0}", "greater than or equal to 1"),
        ("{name: percentile, keep_percent: 100}", "less than 100"),
        ("{name: wilcoxon, p_threshold: 0}", "greater than 0"),
        ("wilcoxon", "wilcoxon cannot decide before 4 seeds with a p_threshold of 0.1; write at"),
    ],
)
def test_pruner(
    pruner: str, reason: str, refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space("encoders:", f"pruner: {pruner}\nencoders:")
    refused(["plan", path], line_of(path, "pruner"), reason)


def test_pruner_beside_cost(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("select: {metric: graded-dev}", "select: [dev, cost]\npruner: asha")
    refused(["plan", path], line_of(path, "pruner"), "a pruner looks at dev alone")


@pytest.mark.parametrize("select", ["[dev]", "[dev, price]", "[cost, dev]", "[]"])
def test_objectives(select: str, refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("select: {metric: graded-dev}", f"select: {select}")
    refused(["plan", path], line_of(path, "select"), "a list of objectives is [dev, cost]")


def test_a_test_score_in_a_list_of_objectives(
    refused: Refused, space: SpaceFile, line_of: LineOf
) -> None:
    path = space("select: {metric: graded-dev}", "select: [graded, cost]")
    refused(["plan", path], line_of(path, "select"), '"graded" is a test score')


def test_a_sampler_with_one_objective(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    sampler = "{name: cma-es, configurations: 2}"
    path = space(
        GRID, RANGES.replace("LAST", LAST).replace("SAMPLER", sampler),
        "select: {metric: graded-dev}", "select: [dev, cost]",
    )  # fmt: skip
    refused(["plan", path], line_of(path, "sampler"), "cma-es has one objective", "use nsga-ii")
