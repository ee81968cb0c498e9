"""`harness run`: runs one configuration."""

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from harness import api
from harness.cli import options
from harness.errors import UserError
from harness.targets.stores import opened
from harness.training.interruption import ended_as_by_ctrl_c, read_or_stopped
from harness.training.progress import Progress

if TYPE_CHECKING:
    from harness.trials.record import Record
    from harness.trials.store import Store
    from harness.trials.trial import Trial


def run(
    method: options.MethodArgument,
    encoder: options.EncoderOption = None,
    set_: options.SetOption = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of all random choices.")] = 0,
    store: options.StoreOption = None,
    track: options.TrackOption = None,
) -> None:
    """Train one configuration in this process, score it on dev and test, and store it.

    Ctrl-C, SIGTERM and a terminal that goes save the training; the same command then goes on from
    there, as it does after a kill, with what was saved in the last minutes
    (HARNESS_CHECKPOINT_MINUTES, 5 by default).

    Example: harness run simcse --encoder tiny-bert --set suite=graded
    """
    values = options.set_values(set_)
    if encoder and values.setdefault("encoder", encoder) != encoder:
        raise UserError(
            f"--encoder {encoder} and --set encoder={values['encoder']} are two encoders; leave "
            f"out one of them"
        )
    trial = api.trial(method, values, seed)
    if track is not None:
        from harness.tracking.trackers import check as check_tracker

        check_tracker(track)
    results = opened(store)
    # A mistake in a name or a value was answered before these are imported.
    from harness.cli.output import Screen
    from harness.cli.show import print_record
    from harness.sweeps.screen.watcher import TrialWatcher
    from harness.targets.execution import run_trial, stored_record

    console, record = Screen(), stored_record(trial, results)
    for name in trial.without_effect:
        console.say(f"--set {name} changes nothing here: it is left out")
    made: list[Record] = []
    if record is None:
        try:
            with ended_as_by_ctrl_c(), ExitStack() as stack:
                tracking = TrialWatcher()
                if track is not None:
                    from harness.tracking.tracking import Tracking

                    tracking = stack.enter_context(Tracking(track, results, "run", console.say))

                def began() -> None:
                    tracking.started(trial)
                    console.say(f"{trial.label}: {_given(trial)}")

                def report(now: Progress) -> None:
                    with read_or_stopped():
                        console.print(_progress(now))
                    tracking.progressed(trial, asdict(now))

                record = run_trial(trial, results, report, began=began, ended=made.append)
                if made:
                    tracking.ended(trial, {})
        except UserError:
            for lost in made:  # it could not be stored, and is not to be lost altogether
                print_record(lost, results.place, console, method)
            raise
    if not made:
        console.print("Already in the store:")
    for line in _summary(record, results, method):
        console.say(line)
    if not record.finished:
        raise typer.Exit(1)


def _given(trial: "Trial") -> str:
    """The differences from the published values, as text."""
    from harness.plugin.resolution import given_values
    from harness.trials.record import four_digits

    values = given_values(trial.plugin, trial.config)
    shown = ", ".join(f"{name}={four_digits(value)}" for name, value in values.items())
    return shown or "the published values"


def _progress(now: Progress) -> str:
    dev = "" if now.dev is None else f", dev {now.dev:.2f}"
    speed = f"{now.sentences_per_second:.0f} sentences/s"
    return f"step {now.step}/{now.total_steps}, loss {now.loss:.3f}, {speed}{dev}"


def _summary(record: "Record", store: "Store", locator: str) -> Iterator[str]:
    """Lines about a trial that has ended, and the commands that show all of it and repeat it.

    `locator`: the name or path of the method, as the user wrote it.
    """
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
    from harness.trials.run_again import run_command

    yield f"again: {run_command(record, locator)}"


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
