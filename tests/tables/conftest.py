"""A throw-away store, filled with made-up trials."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.store import Store

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def add_trial(store: Store) -> Callable[..., str]:
    """Writes a finished final trial of unsupervised SimCSE on BERT base, or what is said; returns its key.

    `score`: Spearman x100 on each of the seven tests.
    """
    numbers = itertools.count()

    def add(configuration: dict[str, Any] | None = None, score: float = 75.0, **different: Any) -> str:
        number = next(numbers)
        record: dict[str, Any] = {
            "key": f"{number:032x}",
            "status": "finished",
            "role": "final",
            "method": "simcse",
            "setting": "unsup",
            "encoder": "bert-base-uncased",
            "seed": number,
            "configuration": {"learning_rate": 3e-5, "batch_size": 64} | (configuration or {}),
            "dev": {"stsb-dev": 80.0, "stsb-dev-start": 50.0},
            "test": dict.fromkeys(TASKS, score),
            "steps": 100,
            "versions": {},
            "source_digest": "source-1",
            "data_digest": "data-1",
            "model_digest": "model-1",
            "protocol": 1,
        }
        store.write(record | different)
        return str(record["key"])

    return add
