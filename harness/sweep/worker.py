"""What runs in a Ray worker: one trial, or all trials of a configuration that a sampler suggests.

The worker writes the records into the store itself.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from ray import tune

from harness.errors import Interrupted
from harness.plugin import registry
from harness.sweep.scored import finished_score
from harness.sweep.search import repeated
from harness.sweep.space import Repeats
from harness.training.progress import Progress
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial, key


def plain_trial(trial: Trial) -> dict[str, Any]:
    """The fields of a trial, with the path of its plugin, which a worker in any folder finds."""
    return {**asdict(trial), "method": str(registry.locate(trial.method))}


def given_trial(settings: Mapping[str, Any]) -> Trial:
    """The trial that Tune hands to a worker, for a grid or for the final seeds."""
    return Trial(**settings["trial"])


def suggested_trials(
    template: Mapping[str, Any], repeats: Repeats, values: Mapping[str, Any]
) -> list[Trial]:
    """The trials of a suggested configuration: one for each search seed and label subset.

    `values`: the hyperparameters that the sampler suggests; the template has all the others.
    """
    trial = Trial(**{**template, "configuration": {**template["configuration"], **values}})
    return repeated(trial, repeats)


def run_one(settings: dict[str, Any], *, store: str, cpus: float) -> None:
    """Run one trial of a grid, or one final trial."""
    _execute(given_trial(settings), Store(Path(store)), cpus)


def run_suggested(
    settings: dict[str, Any], *, template: dict[str, Any], repeats: Repeats, store: str, cpus: float
) -> None:
    """Run a suggested configuration on every search seed and label subset.

    The sampler gets the mean of the dev scores, or -inf when a trial has failed.
    """
    records = [
        _execute(trial, Store(Path(store)), cpus)
        for trial in suggested_trials(template, repeats, settings)
    ]
    scores = [finished_score(record) for record in records]
    known = [found for found in scores if found is not None]
    mean = sum(known) / len(known) if len(known) == len(scores) else -math.inf
    tune.report({"score": mean, **_summary(records[-1])})


def _execute(trial: Trial, store: Store, cpus: float) -> Record:
    """Run the trial, unless another sweep has finished it in the meantime.

    The record is written before Tune is informed, so that an interruption cannot lose it. Raises
    Interrupted when the trial gave way; its checkpoint is then written.
    """
    # By default torch uses all cores, also those of the trials that run at the same time.
    torch.set_num_threads(max(1, int(cpus)))
    name = key(trial)
    weights, running = store.weights(name), store.running(name)
    try:
        record = store.finished_or_run(name, lambda: attempt(trial, _report, weights, running))
    except Interrupted as stopped:
        tune.report({"status": "interrupted", "reason": str(stopped), "dev": None})
        raise
    tune.report(_summary(record))
    return record


def _report(progress: Progress) -> None:
    tune.report(asdict(progress))


def _summary(record: Record) -> dict[str, Any]:
    return {"status": record.status, "reason": record.reason, "dev": finished_score(record)}
