"""A job in a Ray worker: one trial, a part that trials share, or a model that suites measure.

The worker writes the record of a trial into the store itself.
"""

import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from ray import tune

from harness.errors import Interrupted, Postponed, Pruned, TrialFailure, UserError
from harness.evaluation.suites import suite
from harness.locks import postponing
from harness.sweeps.machines import Limits
from harness.sweeps.pool import POSTPONED, Job, trial_report
from harness.sweeps.workers.files import file_list, receive
from harness.sweeps.workers.gpu_share import NEEDS_MORE
from harness.sweeps.workers.limits import Watchdog, limited, stop_note, with_log
from harness.sweeps.workers.rank_actors import in_this_group
from harness.training.memory import give_back, own_garbage
from harness.training.progress import Progress
from harness.trials.evaluate import Measurement, evaluations
from harness.trials.lookup import MeasuredModel, provide_models
from harness.trials.record import Record
from harness.trials.remote_store import store_at
from harness.trials.run import attempt
from harness.trials.shared_parts import part_of
from harness.trials.store import Store
from harness.trials.trial import Trial, arrived, failed, portable
from harness.trials.trial import key as key_of
from harness.trials.workers import RankLauncher

PRUNE = "prune"
"""The file in the folder of a running trial with which the driver ends its training"""


class _Ended(KeyboardInterrupt):
    """Tune ends this job, as where its driver or the head of the cluster is gone."""


def trial_settings(trial: Trial, node: str | None) -> dict[str, Any]:
    """A trial as another process takes it: the plugin by its path, and the files that travel.

    `node`: Ray's name of this machine; None: no other one takes it.
    """
    files = node and {"listed": file_list(trial), "node": node}
    return {"trial": portable(trial), "files": files}


def settings_of(job: Job, gpus: float, node: str | None) -> dict[str, Any]:
    """A job as Tune hands it to a worker. `gpus`: how many it may use."""
    part = job.part and {
        "title": job.part.title, "computes": job.part.computes, "asked": sorted(job.asked)
    }  # fmt: skip
    try:
        sent = trial_settings(job.trial, node)
    except UserError:  # the trial itself says in its record which file is missing
        sent = trial_settings(job.trial, None)
    return {"key": job.key, "part": part, "gpus": gpus, "workers": job.workers, **sent}


def run_one(
    settings: dict[str, Any], *, store: str, sweep: str, commit: str, cpus: float, limits: Limits
) -> None:
    """Do one job.

    `sweep`: identifier of this run of a sweep. `commit`: that of the harness which began it; a
    cluster's worker has its source without the history.
    """
    # By default torch uses all cores, also those of the trials that run at the same time.
    torch.set_num_threads(max(1, int(cpus)))
    limits = replace(limits, gpus=settings["gpus"])
    launch = in_this_group(settings, store, sweep, cpus, limits)
    do = _make_part if settings["part"] else partial(_run_trial, commit=commit, launch=launch)
    try:
        report = _report_of(do, settings, store_at(store), sweep, limits)
    except _Ended:
        sys.exit()  # what Tune asked for; nobody waits for a report
    if report.get("needs_more"):
        # This process may wait for its next job beside others. Only now is the error gone, whose
        # traceback kept the model and the optimiser.
        give_back()
    tune.report(report)


def _report_of(
    do: Callable[..., dict[str, Any]],
    settings: Mapping[str, Any],
    store: Store,
    sweep: str,
    limits: Limits,
) -> dict[str, Any]:
    """Do a job, if it can be done now; the report of its end, or of why it is put off.

    Raises WorkerLost, which ends this worker: the place of the other one may be gone for ever, and
    the next attempt gets a place for all of them.
    """
    try:
        if settings["files"]:
            arrive(settings)
        if store.has_note(stop_note(store.running_folder, sweep)):
            raise Interrupted("the sweep ends")
        with own_garbage(), postponing():
            return do(settings, store, sweep, limits)
    except (Postponed, Interrupted) as why:
        return {"status": POSTPONED, "reason": str(why), "dev": None}
    except torch.OutOfMemoryError:
        if not limits.shares_gpu:
            raise
        return {"status": POSTPONED, "reason": NEEDS_MORE, "dev": None, "needs_more": True}
    except UserError as why:
        return {"status": "failed", "reason": str(why), "dev": None, "recorded": False}


def arrive(settings: Mapping[str, Any]) -> None:
    """Receive the files of a trial.

    Raises UserError when they cannot be received, and when this machine has other models or data.
    The machines that joined the cluster later have not been compared before the first trial.
    """
    receive(**settings["files"])
    if not settings["part"] and key_of(arrived(settings["trial"])) != settings["key"]:
        raise UserError(
            f"{platform.node()} has other models or data than the machine where the sweep began, "
            f"under the same names: give both the same HARNESS_HUB"
        )


def _make_part(
    settings: Mapping[str, Any], store: Store, sweep: str, limits: Limits
) -> dict[str, Any]:
    """Make a part that trials share, unless another process has made it or makes it."""
    key, why = settings["key"], None
    running = store.running(key)
    try:
        trial = arrived(settings["trial"])
        provide_models(store, trial)
        if part := part_of(trial, key):
            make, log = partial(part.make, _report, settings["part"]["asked"]), store.log_here(key)
            if not (why := limited(running, log, sweep, limits, make)):
                log.unlink(missing_ok=True)
        _leave(store, running)
    except (TrialFailure, UserError, OSError) as error:
        why = str(error)
    return {"status": "failed" if why else "finished", "reason": why, "dev": None}


def _run_trial(
    settings: Mapping[str, Any],
    store: Store,
    sweep: str,
    limits: Limits,
    *,
    commit: str,
    launch: RankLauncher,
) -> dict[str, Any]:
    """Run one trial, unless another process has finished it in the meantime, or runs it.

    The record is written before Tune is informed, so that an interruption cannot lose it.
    """
    trial, key = arrived(settings["trial"]), settings["key"]
    running = store.running(key)

    def report(progress: Progress) -> None:
        # Tune returns when the driver has heard of the progress, and so has decided.
        _report(progress)
        if (running / PRUNE).exists():
            raise Pruned

    def run() -> Record:
        (running / PRUNE).unlink(missing_ok=True)  # of an earlier process that died
        try:
            provide_models(store, trial)
        except UserError as why:  # the trial that trains the encoder has failed
            return failed(trial, str(why))
        weights, shared = store.weights(key), limits.shares_gpu
        return attempt(trial, report, weights, running, shares_gpu=shared, launch=launch)

    def logged() -> Record:
        with store.logging(key) as log:
            record = limited(running, log, sweep, limits, run)
            if isinstance(record, str):
                record = failed(trial, record)
            elif record.status == "failed":
                record = replace(record, reason=with_log(record.reason or "", log))
            return replace(record, commit=commit)

    return trial_report(trial, key, store, logged)


def _report(progress: Progress) -> None:
    try:
        with Watchdog.here().waiting():  # for a driver that may be busy, or stopped by Ctrl-Z
            tune.report(asdict(progress))
    except SystemExit as asked:
        # As it is, it would count as the exit of a method, and the trial as failed.
        raise _Ended from asked


def _leave(store: Store, running: Path) -> None:
    """Remove the folder of a job that has ended, and the one above it when nothing else runs."""
    shutil.rmtree(running, ignore_errors=True)
    with suppress(OSError):  # other jobs run
        store.running_folder.rmdir()


def measure_model(settings: Mapping[str, Any], store: str, cpus: float) -> list[Record] | str:
    """The records of a model, one of each suite, or the reason why it cannot be measured.

    They are not in the store yet. settings: the `trial`, `key`, `name` and `record` of the model,
    its `files`, the names of its `suites` -> whether their tests are wanted, and not their dev
    scores alone, and the `limits` of a trial in a `sweep`, which are those of a model.
    """
    torch.set_num_threads(max(1, int(cpus)))
    here, name = store_at(store), f"{settings['key']}-suites"

    def measured() -> list[Record]:
        if settings["files"]:
            receive(**settings["files"])
        trial = arrived(settings["trial"])
        provide_models(here, trial)
        model = MeasuredModel(settings["name"], trial, settings["record"])
        wanted = [(suite(name), tests) for name, tests in settings["suites"].items()]
        suites = [each if tests else each.dev_alone for each, tests in wanted]
        return list(evaluations(Measurement(model, here), suites))

    try:
        if not settings["limits"]:
            return measured()
        running, log = here.running(name), here.log_here(name)
        try:
            return limited(running, log, settings["sweep"], settings["limits"], measured)
        finally:
            log.unlink(missing_ok=True)
            _leave(here, running)
    except UserError as error:
        return str(error)
