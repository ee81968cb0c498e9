"""What the records of a store say besides scores: all trials, cost, failures, environment."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harness.errors import headline
from harness.evaluation.catalogue import DISPLAY
from harness.report.page.grid import Grid, GridCell, number_cell
from harness.report.sheets.notes import counted
from harness.trials.record import Record

HOUR = 3600


def trials_grid(records: Sequence[Record]) -> Grid:
    """Every record of the store, one in a row."""
    rows = [
        [
            {"text": record.key[:10], "trial": number},
            *(record.method, record.setting, record.encoder, record.role, record.status),
            {"text": str(record.seed), "value": record.seed},
            number_cell(record.dev_score, 2),
            number_cell(record.wall_seconds),
        ]
        for number, record in enumerate(records)
    ]
    metrics = sorted({str(each.selected_by) for each in records if each.selected_by})
    dev = f" dev: {', '.join(DISPLAY.get(name, name) for name in metrics)}." if metrics else ""
    texts = ["key", "method", "setting", "encoder", "role", "status"]
    caption = f"{counted(len(records), 'trial and evaluation')} of the store.{dev}"
    return Grid("trials", "", caption, [*texts, "seed", "dev", "seconds"], len(texts), [("", rows)])


def cost_grid(records: Sequence[Record]) -> Grid:
    """Hours, speed and memory of the trials of each method, encoder, role and device."""
    found: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for each in records:
        kind = (each.method, each.setting, each.encoder, each.role, each.device or "unknown")
        found[kind].append(each)
    total = sum(each.wall_seconds or 0 for each in records) / HOUR
    columns = [
        *("method", "setting", "encoder", "role", "device", "trials", "hours", "training hours"),
        *("evaluation hours", "sentences/s", "host memory, MiB", "GPU memory, MiB"),
    ]
    return Grid(
        "cost",
        "",
        f"{counted(len(records), 'record')}, {total:,.1f} hours together. Hours are sums, "
        "sentences per second medians, and memory is the largest of a trial.",
        columns,
        5,
        [("", [[*kind, *_cost(own)] for kind, own in sorted(found.items())])],
    )


def _cost(records: Sequence[Record]) -> Iterator[GridCell]:
    yield number_cell(len(records))
    for name in ("wall_seconds", "training_seconds", "evaluation_seconds"):
        known = _known(records, name)
        yield number_cell(sum(known) / HOUR if known else None, 2)
    speeds = _known(records, "sentences_per_second")
    yield number_cell(statistics.median(speeds) if speeds else None)
    for name in ("peak_host_memory_mib", "peak_gpu_memory_mib"):
        yield number_cell(max(_known(records, name), default=None))


def _known(records: Iterable[Record], name: str) -> list[float]:
    values = (getattr(each, name) for each in records)
    return [value for value in values if value is not None]


def failures_grid(records: Sequence[Record]) -> Grid:
    """The failed and partial records with their reasons; a click shows the end of the output."""
    rows: list[list[GridCell]] = [
        [
            {"text": record.label, "trial": number},
            *(record.role, record.status, headline(record.reason) or "no reason given"),
        ]
        for number, record in enumerate(records)
        if record.status in ("failed", "partial")
    ]
    pruned = sum(record.status == "pruned" for record in records)
    more = f" Another {pruned} were ended early by their search." if pruned else ""
    return Grid(
        "failures",
        "",
        f"{len(rows)} of {counted(len(records), 'record')} failed or lack scores.{more}",
        ["trial", "role", "status", "reason"],
        4,
        [("", rows)],
    )


def environment_grid(records: Sequence[Record]) -> Grid:
    """On what the trials ran: machines, devices, commits, protocols and versions of packages."""
    found: dict[tuple[str, ...], int] = defaultdict(int)
    for each in records:
        found[_environment(each)] += 1
    rows: list[list[GridCell]] = [
        [*names, number_cell(count)] for names, count in sorted(found.items())
    ]
    texts = ["host", "device", "commit", "protocol", "precision", "engine", "versions"]
    return Grid(
        "environment",
        "",
        f"{counted(len(rows), 'environment')} in which trials ran.",
        [*texts, "trials"],
        len(texts),
        [("", rows)],
    )


def _environment(record: Record) -> tuple[str, ...]:
    def text(value: Any) -> str:
        return "" if value is None else str(value)

    versions = ", ".join(f"{name} {value}" for name, value in sorted(record.versions.items()))
    engine = ", ".join(f"{name} {value}" for name, value in sorted(record.engine.items()))
    return (
        *map(text, (record.host, record.device, record.commit, record.protocol, record.precision)),
        engine,
        versions,
    )
