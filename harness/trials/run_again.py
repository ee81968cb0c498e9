"""The command that makes a record again."""

import functools
import json
import logging
import shlex
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from harness.data.user_modules import CodeNotRun, names_of_records
from harness.errors import UserError, one_line
from harness.evaluation.catalogue import suite_option
from harness.trials.store_folders import store_option

if TYPE_CHECKING:
    from harness.trials.record import Record

_warn_once = functools.cache(logging.getLogger(__name__).warning)  # many trials have one code


def again(record: "Record", store: str, locator: str | None = None) -> str:
    """The command that makes a record again.

    store: where the record is. `locator`: the name or path of the method, as the user wrote it.
    """
    if record.role == "evaluation":
        return _evaluation(record, store)
    if locator:
        return run_command(record, locator)
    with names_of_records():
        return run_command(record, record.plugin)


def commands_of_store(store: str) -> "Callable[[Record], str]":
    """A function that gives the command of each record of a store, quickly for thousands of them.

    Of a search trial, of which there are many, it is the one that shows its command.
    """
    named = functools.cache(named_values)

    def command(record: "Record") -> str:
        if record.role == "evaluation":
            return _evaluation(record, store)
        if record.role == "search" and record.status != "failed":
            return shlex.join(["harness", "show", record.key[:10], *store_option(store)])
        return run_command(record, None, named)

    return command


def _evaluation(record: "Record", store: str) -> str:
    """The command that repeats an evaluation; an encoder without a trial has its own name."""
    words = [str(record.evaluates)[:10]]
    if record.method == "pooling":
        words = [record.encoder, "--pooling", str(record.configuration.get("pooling"))]
    elif record.method == "sentence_transformer":
        words = [record.encoder]
    words += ["--suite", suite_option(str(record.suite)), *store_option(store)]
    return shlex.join(["harness", "eval", *words])


def run_command(
    record: "Record", locator: str | None, named: Callable[..., Any] | None = None
) -> str:
    """The command that runs a trial again; it names what differs from the published values.

    `locator`: the name or path of the method, as the user wrote it. It names every value when the
    method is not at hand, or has other hyperparameters by now. `named`: a cached `named_values`.
    """
    configuration, engine = json.dumps(dict(record.configuration)), json.dumps(dict(record.engine))
    method, values = (named or named_values)(record.method, locator, configuration, engine)
    words = ["harness", "run", method, "--encoder", record.encoder, "--seed", str(record.seed)]
    for name, value in values.items():
        words += ["--set", f"{name}={written_value(value)}"]
    return shlex.join(words)


def named_values(
    method: str, locator: str | None, configuration: str, engine: str
) -> tuple[str, dict[str, Any]]:
    """The method's name in the command, and the values that it names.

    method: its name in the record. Code that this user has not run before is named in a warning,
    unless it is that of `locator`. The last two are JSON, so that a caller may cache this for the
    trials of one configuration.
    """
    from harness.plugin import registry
    from harness.plugin.resolution import given_values, resolve

    named = locator or (method if method in registry.names() else f"PATH/{method}")
    values = json.loads(configuration)
    try:
        source = str(registry.locate(locator)) if locator else method
        with names_of_records():
            plugin = registry.load(source)
            return named, given_values(plugin, resolve(plugin, {**values, **json.loads(engine)}))
    except UserError as error:
        if isinstance(error, CodeNotRun):
            _warn_once("%s", one_line(str(error)))
        kept = {name: value for name, value in values.items() if value is not None}
        return named, {name: value for name, value in kept.items() if name != "encoder"}


def written_value(value: Any) -> str:
    """A value as `--set` reads it: a text or a path is itself, and a list or a mapping is JSON."""
    return str(value) if isinstance(value, str | PurePath) else json.dumps(value, default=str)
