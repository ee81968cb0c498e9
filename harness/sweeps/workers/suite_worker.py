"""Models that a pool measures with suites, and the job of its workers that does so."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch

from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.sweeps.pool import Pool
from harness.sweeps.workers.files import receive
from harness.sweeps.workers.limits import Watchdog, stopped, with_log
from harness.trials.evaluate import Measurement, evaluations
from harness.trials.lookup import MeasuredModel, provide_models
from harness.trials.record import Record
from harness.trials.remote_store import store_at
from harness.trials.store import Store
from harness.trials.trial import arrived, commit, key


def measured(
    asked: Sequence[tuple[MeasuredModel, Mapping[str, bool]]], pool: Pool
) -> Iterator[tuple[int, list[Record] | str]]:
    """The number of each model, with the record of each suite, or why it could not be measured.

    asked: models, and the names of the suites that are to measure them -> whether their tests are
    wanted, and not their dev scores alone. They come as they end, and the records are not in the
    store yet. A model has the limits of a trial.
    """
    limits = {"sweep": pool.sweep, "limits": pool.limits}
    settings = [
        {"trial": model.trial, **limits, "key": key(model.trial), "name": model.name,
         "record": model.record, "suites": dict(suites)}
        for model, suites in asked
    ]  # fmt: skip
    for number, records in pool.each(measure_model, settings):
        if not isinstance(records, str):
            # A cluster's worker has the source of the harness without the history.
            records = [replace(record, commit=commit()) for record in records]
        yield number, records


def measure_model(settings: Mapping[str, Any], store: str, cpus: float) -> list[Record] | str:
    """The records of a model, or the reason why it cannot be measured."""
    torch.set_num_threads(max(1, int(cpus)))
    measure = _limited if settings["limits"] else _records
    try:
        return measure(settings, store_at(store))
    except UserError as error:
        return str(error)


def _limited(settings: Mapping[str, Any], store: Store) -> list[Record] | str:
    """The record of each suite, or why the watchdog has stopped this model."""
    name, sweep = f"{settings['key']}-suites", settings["sweep"]
    running, log = store.running(name), store.log_here(name)
    try:
        if why := stopped(running, sweep):  # Ray asks another worker then
            return with_log(why, log)
        running.mkdir(parents=True, exist_ok=True)
        with Watchdog.here().watching(running, log, sweep, settings["limits"]):
            return _records(settings, store)
    finally:
        shutil.rmtree(running, ignore_errors=True)
        log.unlink(missing_ok=True)
        with suppress(OSError):  # trials run
            store.running_folder.rmdir()


def _records(settings: Mapping[str, Any], store: Store) -> list[Record]:
    """The record of each suite."""
    if settings["files"]:
        receive(**settings["files"])
    trial = arrived(settings["trial"])
    provide_models(store, trial)
    model = MeasuredModel(settings["name"], trial, settings["record"])
    wanted = [(suite(name), tests) for name, tests in settings["suites"].items()]
    suites = [each if tests else each.dev_alone for each, tests in wanted]
    return list(evaluations(Measurement(model, store), suites))
