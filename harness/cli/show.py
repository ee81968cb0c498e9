"""`harness show`: one trial, all of it."""

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options

if TYPE_CHECKING:
    from rich.console import Console


def show(
    key: Annotated[
        str,
        typer.Argument(help="The trial's key or its first characters (see `harness list trials`)."),
    ],
    store: options.Store = None,
) -> None:
    """Show one trial: configuration, scores, cost, where it ran, versions, digests, and how to run it again.

    Example: harness show 4f2a
    """
    from rich.console import Console

    from harness.errors import UserError
    from harness.trials.store import find

    found = options.opened(store)
    matches = find(found.read().rows(), key)
    if not matches:
        raise UserError(
            f'no trial in {found.folder} has a key that starts with "{key}"; see `harness list trials`'
        )
    if len(matches) > 1:
        keys = ", ".join(row["key"][: len(key) + 4] for row in matches[:5])
        raise UserError(
            f'{len(matches)} trials have keys that start with "{key}": {keys}; give more characters'
        )
    print_record(matches[0], Console(highlight=False))


def print_record(record: dict[str, Any], console: "Console", locator: str | None = None) -> None:
    """Every field of a record, one a line, and the command that runs it again.

    `locator`: the method's name or path, where it is known.
    """
    for name, value in record.items():
        if name == "history":
            for line in _curves(value):
                console.print(line, soft_wrap=True, markup=False)
        elif value and isinstance(value, dict):
            console.print(f"{name}:")
            for inner, part in value.items():
                told = _interval(part) if name == "uncertainty" else _number(part)
                console.print(f"  {inner}: {told}", soft_wrap=True, markup=False)
        elif value not in (None, "", {}):
            console.print(f"{name}: {_number(value)}", soft_wrap=True, markup=False)
    again = _evaluation(record) if record["role"] == "evaluation" else _command(record, locator)
    console.print(f"again: {again}", soft_wrap=True, markup=False)


def _curves(history: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each metric of each stage: its first and its last value."""
    curves: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for point in history:
        curves.setdefault((point["stage"], point["metric"]), []).append(point)
    if curves:
        yield "history (stage, metric, first and last value):"
    for (stage, metric), points in curves.items():
        first, last = (
            f"{point['value']:.5g} at {point['step']}" for point in (points[0], points[-1])
        )
        yield f"  {stage} {metric}: {first}" + (
            f" -> {last} ({len(points)} values)" if len(points) > 1 else ""
        )


def _number(value: Any) -> str:
    return (
        f"{value:.4f}".rstrip("0").rstrip(".")
        if isinstance(value, float) and abs(value) >= 1
        else str(value)
    )


def _interval(spread: dict[str, float]) -> str:
    return f"standard error {spread['standard_error']:.2f}, 95 % from {spread['low']:.2f} to {spread['high']:.2f}"


def _evaluation(record: dict[str, Any]) -> str:
    """A model that is no trial is named by its encoder."""
    named = {
        "pooling": [record["encoder"], "--pooling", str(record["configuration"].get("pooling"))],
        "sentence_transformer": [record["encoder"]],
    }
    words = named.get(record["method"], [record["evaluates"][:10]])
    return shlex.join(["harness", "eval", *words, "--suite", record["suite"]])


def _command(record: dict[str, Any], locator: str | None) -> str:
    from harness.plugin.registry import names

    method = locator or (
        record["method"] if record["method"] in names() else f"PATH/{record['method']}"
    )
    values = {
        name: value
        for name, value in record["configuration"].items()
        if name != "encoder" and value is not None
    }
    words = [
        "harness",
        "run",
        method,
        "--encoder",
        record["encoder"],
        "--seed",
        str(record["seed"]),
    ]
    for name, value in values.items():
        words += ["--set", f"{name}={_yaml(value)}"]
    return shlex.join(words)


def _yaml(value: Any) -> str:
    """A value as `--set` reads it back; text that YAML would take for something else is quoted."""
    import yaml

    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return value if yaml.safe_load(value) == value else json.dumps(value)
    except (yaml.YAMLError, ValueError):
        return json.dumps(value)
