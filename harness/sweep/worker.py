"""What runs in a Ray worker: one trial, or one suggested configuration on its seeds and subsets, straight into the
store."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from ray import tune

from harness.plugin import registry
from harness.sweep.search import repeated
from harness.sweep.space import Repeats
from harness.training.progress import Progress
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial, key


def task(trial: Trial) -> dict[str, Any]:
    """A trial as plain values; the plugin by its path, so that any working directory will do."""
    return {**asdict(trial), "method": str(registry.locate(trial.method))}


def given(settings: Mapping[str, Any]) -> Trial:
    """The trial of a grid."""
    return Trial(**settings["task"])


def suggested(
    template: Mapping[str, Any], repeats: Repeats, values: Mapping[str, Any]
) -> list[Trial]:
    """The template's trial with a sampler's values in its configuration, on every search seed and subset."""
    trial = Trial(**{**template, "configuration": {**template["configuration"], **values}})
    return repeated(trial, repeats)


def run_one(settings: dict[str, Any], *, store: str, cpus: float) -> None:
    """One trial of a grid or one final trial."""
    _execute(given(settings), Store(Path(store)), cpus)


def run_suggested(
    settings: dict[str, Any], *, template: dict[str, Any], repeats: Repeats, store: str, cpus: float
) -> None:
    """A suggested configuration on every search seed and subset; the sampler is told the mean, or -inf when one
    failed."""
    scores = []
    for trial in suggested(template, repeats, settings):
        record = _execute(trial, Store(Path(store)), cpus)
        scores.append(score(record))
    mean = (
        -math.inf
        if None in scores
        else sum(found for found in scores if found is not None) / len(scores)
    )
    tune.report({"score": mean, **_summary(record)})


def score(record: Mapping[str, Any]) -> float | None:
    """The dev score of a record, None for a failed one."""
    if record["status"] != "finished":
        return None
    return next(
        float(value) for name, value in record["dev"].items() if not name.endswith("-start")
    )


def _execute(trial: Trial, store: Store, cpus: float) -> dict[str, Any]:
    """Run unless another sweep has finished it meanwhile; the record is written before anyone is told."""
    torch.set_num_threads(max(1, int(cpus)))
    record = store.get(key(trial))
    if record is None or record["status"] != "finished":
        record = attempt(trial, _tell, store.weights(key(trial)))
        store.write(record)
    tune.report(_summary(record))
    return record


def _tell(progress: Progress) -> None:
    tune.report(asdict(progress))


def _summary(record: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": record["status"], "reason": record.get("reason"), "dev": score(record)}
