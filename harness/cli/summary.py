"""The end of `harness run` on one screen: scores, cost, and where the trial is stored."""

import shlex
from typing import TYPE_CHECKING

from harness.cli.run_again import run_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from harness.trials.record import Record
    from harness.trials.store import Store


def print_summary(record: "Record", store: "Store", console: "Console", locator: str) -> None:
    """Print what came of a trial, and the commands that show all of it and that run it again.

    `locator`: the name or path of the method, as the user wrote it.
    """
    for line in _lines(record, store):
        console.print(line, soft_wrap=True)
    console.print(f"again: {run_command(record, locator)}", soft_wrap=True)


def _lines(record: "Record", store: "Store") -> "Iterator[str]":
    yield f"{record.status}: {record.label}"
    if record.reason:
        yield f"reason: {record.reason}"
    scores = [*record.dev.items(), *record.test.items()]
    if scores:
        yield "scores:"
    for name, value in scores:
        before = record.dev_before if name == record.selected_by else None
        yield f"  {name}: {value:.2f}" + ("" if before is None else f" (before {before:.2f})")
    yield f"cost: {_cost(record)}"
    yield f"stored: {store.place}, key {record.key}"
    if store.weights(record.key).is_file():
        yield f"weights: {store.weights(record.key)}"
    show = ["harness", "show", record.key[:10], "--store", store.place]
    yield f"all of it: {shlex.join(show)}"
    if not record.finished and store.log(record.key).is_file():
        logs = ["harness", "logs", *show[2:]]
        yield f"what it printed: {shlex.join(logs)}"


def _cost(record: "Record") -> str:
    """Steps, seconds and memory; what was not measured is left out."""
    parts = {
        "steps": record.steps,
        "s in all": record.wall_seconds,
        "s of training": record.training_seconds,
        "sentences/s": record.sentences_per_second,
        "MiB of memory": record.peak_host_memory_mib,
        "MiB on the GPU": record.peak_gpu_memory_mib,
    }
    return ", ".join(f"{value:.4g} {unit}" for unit, value in parts.items() if value)
