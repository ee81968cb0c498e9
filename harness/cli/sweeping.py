"""Runs searches for the verbs `sweep` and `reproduce`, and says what they could not do."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from harness.cli import options
from harness.errors import UserError
from harness.sweeps.machines import Limits, Resources
from harness.tracking.trackers import check

if TYPE_CHECKING:
    from harness.sweeps.run import SweepResult
    from harness.sweeps.spaces.search import Search
    from harness.trials.store import Store


@dataclass(frozen=True)
class Means:
    """With what a sweep runs, as the command line says it."""

    cpus_per_trial: float = 1
    gpus_per_trial: str | None = None
    memory_per_trial: float | None = None
    """GiB"""
    trial_timeout: str | None = None
    address: str | None = None
    dashboard: bool | None = None
    track: str | None = None
    local: bool | None = None
    """Whether trials run in this process; None: where that takes no longer"""

    def check(self) -> None:
        """Raise UserError for a text that says nothing, and for what one process cannot do."""
        if self.local:
            for value, option in (
                (self.address, "--address"),
                (self.dashboard, "--dashboard"),
                (self.trial_timeout, "--trial-timeout"),
                (self.memory_per_trial, "--memory-per-trial"),
                (self.gpus_per_trial, "--gpus-per-trial"),
            ):
                if value:
                    raise UserError(
                        f"--local runs the trials in this process, which has no {option}: leave "
                        f"out one of the two"
                    )
        options.seconds_of(self.trial_timeout, "--trial-timeout")
        options.gpus_of(self.gpus_per_trial)
        if self.track is not None:
            check(self.track)

    def resources(self) -> Resources:
        """What each trial occupies."""
        return Resources(self.cpus_per_trial, options.gpus_of(self.gpus_per_trial))

    def limits(self) -> Limits:
        """What each trial may take."""
        memory = self.memory_per_trial and self.memory_per_trial * 2**30
        return Limits(options.seconds_of(self.trial_timeout, "--trial-timeout"), memory)


def run_searches(
    searches: "list[Search]", store: "Store", means: Means, console: Console, name: str
) -> "SweepResult":
    """Run what the store lacks of the searches. `name`: that of the sweep, for a tracker."""
    options.use_cluster(means.address)
    from harness.sweeps.run import run_sweep
    from harness.sweeps.screen.live_view import publishing
    from harness.sweeps.screen.terminal import Terminal

    dashboard = means.dashboard
    if dashboard is None:
        dashboard = bool(os.environ.get("RAY_ADDRESS"))
    with publishing(store) as publish, Terminal(console, publish) as terminal, ExitStack() as stack:
        tracking = None
        if means.track is not None:
            from harness.tracking.tracking import Tracking

            tracking = stack.enter_context(Tracking(means.track, store, name, terminal.notice))
        return run_sweep(
            searches, store, means.resources(), means.limits(), terminal,
            dashboard=dashboard, local=means.local, tracking=tracking,
        )  # fmt: skip


def print_problems(
    console: Console, result: "SweepResult", store: "Store", *, complete: bool
) -> None:
    """Print what the sweep could not do, and end with exit code 1 if there is anything.

    complete: whether all rows of a published table could be run, and all suites measured.
    """
    for label in result.undecided:
        console.print(f"No configuration of {label} finished, so none could be chosen.")
    if result.failed or result.undecided:
        console.print(
            f"Failed trials: {result.failed}. See `harness list trials`, then `harness show KEY` "
            "and `harness logs KEY`."
        )
    if unsent := store.unsent():
        console.print(
            f"Records that could not be sent to {store.place}: {unsent}. They are kept on this "
            "machine, and the same command sends them.",
            soft_wrap=True,
        )
    if result.failed or result.undecided or unsent or not complete:
        raise typer.Exit(1)
