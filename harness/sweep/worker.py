"""What runs in a Ray worker: one trial. The worker writes the record into the store itself."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from ray import tune

from harness.errors import Interrupted, Postponed, Pruned, UserError
from harness.locks import postponing
from harness.plugin import registry
from harness.sweep.limits import Limits, limited
from harness.training.progress import Progress
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial

POSTPONED = "postponed"
"""The status of a trial that waits or gave way, and so has no record yet"""
PRUNE = "prune"
"""The file in the folder of a running trial with which the driver ends its training"""


def plain_trial(trial: Trial) -> dict[str, Any]:
    """The fields of a trial, with the path of its plugin, which a worker in any folder finds."""
    return {**asdict(trial), "method": str(registry.locate(trial.method))}


def given_trial(settings: Mapping[str, Any]) -> Trial:
    """The trial that Tune hands to a worker."""
    return Trial(**settings["trial"])


def run_one(
    settings: dict[str, Any], *, store: str, sweep: str, cpus: float, limits: Limits
) -> None:
    """Run one trial, unless another process has finished it in the meantime, or runs it.

    The record is written before Tune is informed, so that an interruption cannot lose it. `sweep`:
    identifier of this run of a sweep.
    """
    # By default torch uses all cores, also those of the trials that run at the same time.
    torch.set_num_threads(max(1, int(cpus)))
    trial, key, found = given_trial(settings), settings["key"], Store(Path(store))
    running = found.running(key)

    made: list[Record] = []

    def report(progress: Progress) -> None:
        # Tune returns when the driver has heard of the progress, and so has decided.
        tune.report(asdict(progress))
        if (running / PRUNE).exists():
            raise Pruned

    def run() -> Record:
        (running / PRUNE).unlink(missing_ok=True)  # of an earlier process that died
        made.append(attempt(trial, report, found.weights(key), running))
        return made[0]

    try:
        with postponing():
            record = found.finished_or_run(
                key,
                trial.label,
                lambda: limited(trial, running, sweep, limits, run),
                trial.search,
            )
    except (Postponed, Interrupted) as why:
        tune.report({"status": POSTPONED, "reason": str(why), "dev": None})
        return
    except UserError as why:  # the record cannot be stored, so at least the terminal has its scores
        reason = "; ".join([str(why), *map(_scores, made)])
        tune.report({"status": "failed", "reason": reason, "dev": None})
        return
    tune.report(_summary(record))


def _scores(record: Record) -> str:
    scores = [*record.dev.items(), *record.test.items()]
    return "its scores: " + ", ".join(f"{name} {value:.2f}" for name, value in scores)


def _summary(record: Record) -> dict[str, Any]:
    return {
        "status": record.status,
        "reason": record.reason,
        "dev": record.dev_score,
        "cost": record.training_seconds or 0.0,
        "seconds": record.wall_seconds or 0.0,
    }
