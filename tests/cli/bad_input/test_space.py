"""A search space that is no search space: its form, its axes and its size."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]


@pytest.mark.parametrize(
    ("old", "new", "unknown", "nearest"),
    [
        ("encoders:", "encoder:", "encoder", "encoders"),
        ("    grid:", "    gird:", "gird", "grid"),
        ("metric: graded-dev", "metrik: graded-dev", "metrik", "metric"),
        ("final: {seeds", "final: {seed", "seed", "seeds"),
    ],
)
def test_unknown_key_in_a_space(
    old: str,
    new: str,
    unknown: str,
    nearest: str,
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space(old, new)
    refused(["sweep", path], line_of(path, new), f"{unknown}: ", f'did you mean "{nearest}"?')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("suite: graded\n", "suite: graded\nsetting: sup\n"),
        ("    grid:\n", "    grid:\n      learning_rate: [1e-3]\n"),
        ("  simcse:\n", "  simcse: {}\n  simcse:\n"),
    ],
)
def test_duplicate_key(old: str, new: str, refused: Refused, space: SpaceFile) -> None:
    path = space(old, new)
    refused(["sweep", path], f"{path}, line ", "is written twice")


def test_duplicate_key_names_the_second_line(
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space("encoders:", "suite: sts\nencoders:")
    refused(["sweep", path], line_of(path, "suite: sts"), "suite is written twice")


def test_space_that_is_not_there(refused: Refused, tmp_path: Path) -> None:
    refused(["sweep", tmp_path / "none.yaml"], tmp_path / "none.yaml", "no such file")


def test_space_that_is_no_text(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"set: \xff\xfe\n")
    refused(["sweep", tmp_path / "bytes.yaml"], "bytes.yaml", "cannot be read")


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ("methods: [simcse\nset: {}\n", 2),
        ("set: {}\n\tmethods: {}\n", 2),
        ("set: {a: 1\n", 2),
        ("a: 1\nb: 'c\n", 3),
    ],
)
def test_broken_yaml_names_the_line(
    broken: str,
    line: int,
    refused: Refused,
    tmp_path: Path,
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(broken)
    refused(["sweep", path], f"{path}, line {line}: not valid YAML")


@pytest.mark.parametrize(
    "text",
    [
        "a: 2026-13-45\n",
        "a: \x07\n",
        "a: &loop [*loop]\n",
        "a: !!python/object:os.system {}\n",
        "? [1]\n: 2\n",
    ],
    ids=["no such date", "control character", "endless", "foreign tag", "list as key"],
)
def test_odd_yaml(text: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    refused(["sweep", path], path)


@pytest.mark.parametrize("text", ["", "just words\n", "[1, 2]\n"])
def test_space_that_is_no_mapping(text: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(text)
    refused(["sweep", path], path, "must be a mapping of keys to values")


@pytest.mark.parametrize("key", ["encoders", "methods"])
def test_space_without_a_needed_key(key: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    whole = {"encoders": "encoders: [tiny-bert]\n", "methods": "methods: {pooling: {}}\n"}
    path.write_text("".join(text for name, text in whole.items() if name != key))
    refused(["sweep", path], path, key, "required")


def test_empty_grid(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("    grid:\n      learning_rate: [1e-4, 5e-4]\n", "    grid: {}\n")
    refused(["sweep", path], line_of(path, "grid"), "the grid is empty")


def test_empty_axis(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("[1e-4, 5e-4]", "[]")
    refused(["sweep", path], line_of(path, "learning_rate"), "learning_rate", "at least 1 item")


def test_empty_span(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("[1e-4, 5e-4]", "{from: 0.2, to: 0.1, step: 0.01}")
    refused(["sweep", path], line_of(path, "learning_rate"), "there is no value from")


def test_between_without_a_round_before(
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space("[1e-4, 5e-4]", "{between: best_two, step: 0.01}")
    refused(["sweep", path], line_of(path, "learning_rate"), "between needs a round before it")


def test_grid_beside_ranges(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space(
        "    grid:",
        "    ranges: {temperature: {low: 0.1, high: 0.2}}\n"
        "    sampler: {configurations: 2}\n"
        "    grid:",
    )
    refused(["sweep", path], line_of(path, "simcse"), "grid and ranges exclude each other")


def test_ranges_without_a_sampler(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space(
        "    grid:\n      learning_rate: [1e-4, 5e-4]",
        "    ranges: {learning_rate: {low: 0.1, high: 0.2}}",
    )
    refused(["sweep", path], line_of(path, "simcse"), "ranges need a sampler")


@pytest.mark.parametrize(
    ("axis", "reason"),
    [
        ("learning_rate: {low: 0.1, high: 0.01}", "learning_rate"),
        ("learning_rate: []", "learning_rate"),
        ("learning_rate: {low: 0.0, high: 0.01, log: true}", "learning_rate"),
        ("learning_rate: {low: 0.001, high: 0.01, log: true, step: 0.001}", "learning_rate"),
        ("batch_size: {low: 8.5, high: 64}", "batch_size"),
        ("batch_size: {low: 8, high: 64, step: 0.5}", "batch_size"),
        ("learning_rat: {low: 0.1, high: 0.2}", 'did you mean "learning_rate"?'),
        ("learning_rate: {low: -1, high: 0.2}", "greater than 0"),
    ],
)
def test_range_that_no_sampler_can_draw_from(
    axis: str,
    reason: str,
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    """`harness plan` runs nothing, and it finds the mistake."""
    ranges = f"    ranges:\n      {axis}\n    sampler: {{configurations: 2}}\n"
    path = space("    grid:\n      learning_rate: [1e-4, 5e-4]\n", ranges)
    refused(["plan", path], line_of(path, axis), reason)


@pytest.mark.parametrize(
    ("suite", "metric", "dev"),
    [("graded", "graded", "graded-dev"), ("sts", "stsb", "stsb-dev"), ("sts", "avg", "stsb-dev")],
)
def test_test_score_as_selector(
    suite: str,
    metric: str,
    dev: str,
    refused: Refused,
    space: SpaceFile,
    line_of: LineOf,
) -> None:
    path = space("suite: graded\n", f"suite: {suite}\n", "metric: graded-dev", f"metric: {metric}")
    refused(
        ["sweep", path],
        line_of(path, "metric"),
        f'"{metric}" is a test score',
        "never select",
        f'"{dev}"',
    )


def test_unknown_metric(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("metric: graded-dev", "metric: accuracy")
    refused(["sweep", path], line_of(path, "metric"), 'no dev score "accuracy"', "graded-dev")


def test_minimum_as_selector(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("metric: graded-dev", "metric: graded-dev, mode: min")
    refused(["sweep", path], line_of(path, "metric"), "mode", "'max'")


def test_unknown_suite(refused: Refused, space: SpaceFile, line_of: LineOf) -> None:
    path = space("suite: graded\n", "suite: grated\n")
    refused(
        ["sweep", path], line_of(path, "suite"), 'unknown suite "grated"', 'did you mean "graded"?'
    )
