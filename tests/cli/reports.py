"""A store of known numbers, and the report of it, for the tests that open it in a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import PROTOCOL
from harness.trials.record import Record
from harness.trials.store import Store

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
SCRIPT = "<script>globalThis.ran = true</script>"
"""The name of a method that would run, were it markup"""
IMAGE = '"><img src=x onerror="globalThis.ran = true">'
LOG = f"the loss is not finite\nThe last lines of its output:\n  </script>{SCRIPT}"
MANY = 60
"""Rows of untrained encoders, which are more than a page of a table has"""


def fill(folder: Path) -> None:
    """Write the trials: three seeds of two methods, a search, a failure, and many encoders."""
    store = Store(folder)
    for number, values in enumerate(_trials()):
        store.write(Record(**{"key": f"{number:032x}", **_ALIKE, **values}))


def _trials() -> Iterator[dict[str, Any]]:
    for method, score in (("simcse", 75.0), (SCRIPT, 70.0)):
        for seed in range(3):
            scores = dict.fromkeys(TASKS, score + 2 * seed)
            yield {"method": method, "seed": seed, "test": scores, "search": "5ea4c4"}
    for rate in (1e-5, 2e-5, 5e-5, 1e-4):
        for temperature in (0.05, 0.1):
            yield {
                "role": "search",
                "search": "5ea4c4",
                "configuration": {"learning_rate": rate, "temperature": temperature},
                "dev": {"stsb-dev": 70 + 1e5 * rate + temperature},
                "history": _history(rate),
            }
    yield {"status": "failed", "seed": 9, "encoder": IMAGE, "reason": LOG, "dev": {}, "test": {}}
    for number in range(MANY):
        # Their order as texts differs from that of their scores.
        scores = dict.fromkeys(TASKS, float((number * 37) % MANY))
        encoder = f"encoder-{number:02}"
        yield {"method": "pooling", "encoder": encoder, "test": scores, "steps": 0}


def _history(rate: float) -> list[dict[str, Any]]:
    points = ((step, step * rate * 1e4) for step in (10, 20, 30))
    return [
        {"step": step, "stage": "contrastive", "metric": metric, "value": value}
        for step, value in points
        for metric in ("dev", "loss/contrastive")
    ]


_ALIKE: dict[str, Any] = {
    "status": "finished",
    "role": "final",
    "method": "simcse",
    "setting": "unsup",
    "encoder": "bert-base-uncased",
    "seed": 0,
    "configuration": {"learning_rate": 3e-5, "batch_size": 64},
    "selected_by": "stsb-dev",
    "dev": {"stsb-dev": 80.0},
    "steps": 100,
    "wall_seconds": 1800.0,
    "training_seconds": 1500.0,
    "host": "host-1",
    "device": "Test GPU",
    "commit": "abc123",
    "versions": {"torch": "2.9"},
    "protocol": PROTOCOL,
}
