"""The figures of a sweep as metrics of Ray, with fixed names; `docs/grafana.json` shows them.

Ray exports them on every machine for Prometheus, with `ray_` in front of each name.
"""

from collections.abc import Mapping
from typing import Any

from ray.util.metrics import Counter, Gauge

from harness.trials.trial import Trial

LABELS = ("method", "encoder", "trial")
"""What the figures of a trial are labelled with; `trial` is its label, as in `harness watch`"""
FIGURES = {
    "loss": ("harness_loss", "Loss of the last step of a running trial"),
    "dev": ("harness_dev_score", "Last dev score of a running trial"),
    "sentences_per_second": ("harness_sentences_per_second", "Training speed of a running trial"),
}
"""Field of `Progress` -> metric and description"""
RUNNING = ("harness_trials_running", "Trials that run now")
ENDED = {
    "finished": ("harness_trials_finished", "Trials that have finished"),
    "failed": ("harness_trials_failed", "Trials that have failed"),
    "pruned": ("harness_trials_pruned", "Trials that were stopped because of a low dev score"),
}
"""Status of a trial that has ended -> metric and description"""
ARTEFACTS = {
    "built": ("harness_artefacts_built", "Artefacts and other shared parts that were built"),
    "shared": ("harness_artefacts_shared", "Trials that waited for an artefact and share it"),
}


def exported_names() -> set[str]:
    """The names under which Prometheus finds the metrics."""
    gauges = [RUNNING, *FIGURES.values()]
    counters = [*ENDED.values(), *ARTEFACTS.values()]
    return {f"ray_{name}" for name, _ in gauges} | {f"ray_{name}_total" for name, _ in counters}


class Metrics:
    """The metrics of one sweep. Ray must have been started, with a dashboard or without."""

    def __init__(self) -> None:
        self._figures = {
            field: Gauge(name, description, LABELS)
            for field, (name, description) in FIGURES.items()
        }
        self._running = Gauge(*RUNNING)
        self._ended = {status: Counter(*named) for status, named in ENDED.items()}
        self._artefacts = {kind: Counter(*named) for kind, named in ARTEFACTS.items()}

    def running(self, trials: int) -> None:
        """So many trials run now. Ray forgets what it does not hear every few seconds."""
        self._running.set(trials)

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """A running trial has new figures; those that are None stay as they were."""
        for field, gauge in self._figures.items():
            if report.get(field) is not None:
                gauge.set(report[field], _labels(trial))

    def ended(self, status: str) -> None:
        """A trial has ended with this status."""
        self._ended[status].inc()

    def made(self, waiting: int) -> None:
        """An artefact was built, and so many trials waited for it."""
        self._artefacts["built"].inc()
        if waiting:
            self._artefacts["shared"].inc(waiting)


def _labels(trial: Trial) -> dict[str, str]:
    return {"method": trial.plugin.name, "encoder": trial.config.encoder, "trial": trial.label}
