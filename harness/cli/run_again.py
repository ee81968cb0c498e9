"""The command that makes a record again."""

import json
import shlex
from typing import TYPE_CHECKING, Any

from harness.errors import UserError

if TYPE_CHECKING:
    from harness.trials.record import Record


def again(record: "Record", locator: str | None = None) -> str:
    """The command that makes a record again. `locator`: the name or path of the method."""
    return _evaluation(record) if record.role == "evaluation" else run_command(record, locator)


def _evaluation(record: "Record") -> str:
    """The command that repeats an evaluation; an encoder without a trial has its own name."""
    words = [str(record.evaluates)[:10]]
    if record.method == "pooling":
        words = [record.encoder, "--pooling", str(record.configuration.get("pooling"))]
    elif record.method == "sentence_transformer":
        words = [record.encoder]
    return shlex.join(["harness", "eval", *words, "--suite", str(record.suite)])


def run_command(record: "Record", locator: str | None) -> str:
    """The command that runs a trial again; it names what differs from the published values.

    `locator`: the name or path of the method, as the user wrote it. It names every value when the
    method is not at hand, or has other hyperparameters by now.
    """
    from harness.plugin import registry
    from harness.trials.given_values import given_values
    from harness.trials.trial import resolve

    known = record.method in registry.names()
    method = locator or (record.method if known else f"PATH/{record.method}")
    values = {name: value for name, value in record.configuration.items() if name != "encoder"}
    try:
        plugin = registry.load(method)
        wanted = {**record.configuration, **record.engine}
        values = given_values(plugin, resolve(plugin, wanted))
    except UserError:
        values = {name: value for name, value in values.items() if value is not None}
    words = ["harness", "run", method, "--encoder", record.encoder, "--seed", str(record.seed)]
    for name, value in values.items():
        words += ["--set", f"{name}={yaml_value(value)}"]
    return shlex.join(words)


def yaml_value(value: Any) -> str:
    """A value as `--set` reads it; text that YAML would read as another type is quoted."""
    import yaml

    if value is None:
        return "null"
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return value if yaml.safe_load(value) == value else json.dumps(value)
    except (yaml.YAMLError, ValueError):
        return json.dumps(value)
