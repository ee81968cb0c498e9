"""The progress of a sweep on the screen: a live view in a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.errors import headline
from harness.sweep.axes import Values
from harness.sweep.search import Search
from harness.sweep.watcher import RoundPlan
from harness.trials.trial import Trial


class Terminal:
    """Shows the running trials, the finished ones, the best score so far and the time left.

    It is a SweepWatcher, and it is used as a context manager.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.running: dict[tuple[str, int], tuple[Trial, Mapping[str, Any]]] = {}
        self.best: dict[str, float] = {}
        self.plan = RoundPlan("", 0, 0, 1, set())
        self.done, self.failed = 0, 0
        self.preparation: dict[str, float] = {}
        """Title of a part that is being made -> since when"""
        self.waited: set[str] = set()
        """What trials have waited for, in words"""
        self.clock = time.monotonic()
        self.live = Live(
            console=console, get_renderable=self._view, refresh_per_second=2, transient=True
        )

    def __enter__(self) -> "Terminal":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def round(self, plan: RoundPlan) -> None:
        """A round begins."""
        self.plan, self.done = plan, 0
        self.running.clear()
        self.clock = time.monotonic()
        at_a_time = f", {plan.slots} at a time" if plan.slots else ""
        counts = f"{_number(plan.to_run)} to run, {plan.stored} already in the store"
        self._say(f"{plan.title}: {counts}{at_a_time}")

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has chosen a configuration."""
        if dev is not None:
            varied = {name for axes in search.rounds for name in axes} | set(search.ranges)
            values = _values(configuration, varied)
            self._say(f"chosen for {search.label}: {values} ({search.metric} {dev:.2f})")

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""
        self.running[_identity(trial)] = (trial, {})

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """A trial has done more steps, and may have a new dev score."""
        self.running[_identity(trial)] = (trial, report)
        # In a terminal, the live view shows the same numbers.
        if report.get("dev") is not None and not self.console.is_terminal:
            self._say(
                f"  {self._name(trial)}: step {report['step']}/{report['total_steps']}, "
                f"loss {report['loss']:.3f}, dev {report['dev']:.2f}"
            )

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """A trial has finished or failed."""
        self.running.pop(_identity(trial), None)
        self.done += 1
        where = f"[{self.done}/{_number(self.plan.to_run)}] {self._name(trial)}"
        if report.get("status") == "pruned":
            self._say(f"{where}: dev {report['dev']:.2f}, {headline(report.get('reason'))}")
            return
        if report.get("status") != "finished":
            self.failed += 1
            self._say(f"{where}: FAILED: {headline(report.get('reason'))}")
            return
        group, dev = f"{trial.search} {trial.role}", report["dev"]
        self.best[group] = max(dev, self.best.get(group, dev))
        self._say(f"{where}: dev {dev:.2f} (best {self.best[group]:.2f}); {self._left()}")

    def postponed(self, trial: Trial, why: str) -> None:
        """A trial waits for another process."""
        self.running.pop(_identity(trial), None)
        if why not in self.waited:  # several trials may wait for the same, and try several times
            self.waited.add(why)
            self._say(f"  {self._name(trial)} waits: {why}")

    def preparing(self, title: str) -> None:
        """A worker makes a part that trials share."""
        self.preparation[title] = time.monotonic()

    def prepared(self, title: str, reason: str | None) -> None:
        """A part has been made, or cannot be."""
        seconds = time.monotonic() - self.preparation.pop(title, time.monotonic())
        self.failed += reason is not None
        result = f"FAILED: {headline(reason)}" if reason else f"made in {duration(seconds)}"
        self._say(f"  {title}: {result}")

    def stopping(self, running: int) -> None:
        """The sweep waits for the checkpoints of its running trials."""
        self._say(
            f"Stopping: {running} running trials save their state; Ctrl-C again stops at once."
        )

    def _name(self, trial: Trial) -> str:
        shown = _values(trial.configuration, self.plan.varied)
        return f"{trial.label} {shown}".strip()

    def _left(self) -> str:
        """An estimate of the time left in this round, from the mean time of a trial so far.

        The finished part of a running trial counts as that part of a trial.
        """
        reports = [report for _, report in self.running.values() if report]
        worked = self.done + sum(report["step"] / report["total_steps"] for report in reports)
        if not worked or self.plan.to_run is None:
            return "time left unknown"
        per_trial = (time.monotonic() - self.clock) / worked
        return f"about {duration(per_trial * (self.plan.to_run - worked))} left in this round"

    def _say(self, line: str) -> None:
        # Soft wrapping keeps a line whole where the output is a file.
        self.console.print(Text(line), soft_wrap=True)

    def _view(self) -> Group:
        table = Table(box=None, pad_edge=False)
        table.add_column("running", no_wrap=True)
        for column in ("step", "loss", "dev", "sentences/s"):
            table.add_column(column, justify="right", no_wrap=True)
        for title in self.preparation:
            table.add_row(escape(title), "", "", "", "")
        for trial, report in self.running.values():
            table.add_row(escape(self._name(trial)), *_cells(report))
        counts = f"{self.done}/{_number(self.plan.to_run)} done, {self.failed} failed"
        state = f"{self.plan.title}: {counts}; {self._left()}"
        return Group(table, Text(state, style="bold"))


def duration(seconds: float) -> str:
    """Seconds as text: `2 h 5 min`, `3 min 20 s` or `12 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _number(trials: int | None) -> str:
    return "?" if trials is None else str(trials)


def _cells(report: Mapping[str, Any]) -> list[str]:
    """Step, loss, dev and speed of a running trial; empty before its first report."""
    if not report:
        return ["", "", "", ""]
    dev = f"{report['dev']:.2f}" if report.get("dev") is not None else ""
    steps = f"{report['step']}/{report['total_steps']}"
    return [steps, f"{report['loss']:.3f}", dev, f"{report['sentences_per_second']:.0f}"]


def _identity(trial: Trial) -> tuple[str, int]:
    values = repr(sorted(trial.configuration.items(), key=lambda item: item[0]))
    return values + trial.method + trial.role, trial.seed


def _values(configuration: Mapping[str, Any], names: set[str]) -> str:
    return " ".join(
        f"{name}={configuration[name]}" for name in sorted(names) if name in configuration
    )
