"""A sweep's progress: a live view in a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.sweep.search import Search
from harness.sweep.space import Values
from harness.trials.trial import Trial


class Terminal:
    """Shows what runs, what is done, the best so far and the time left. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.running: dict[tuple[str, int], tuple[Trial, Mapping[str, Any]]] = {}
        self.best: dict[str, float] = {}
        self.title, self.total, self.done, self.failed, self.slots = "", 0, 0, 0, 1
        self.varied: set[str] = set()
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

    def round(self, title: str, trials: int, stored: int, slots: int, varied: set[str]) -> None:
        """A round begins."""
        self.title, self.total, self.done, self.slots, self.varied = title, trials, 0, slots, varied
        self.running.clear()
        self.clock = time.monotonic()
        self._say(f"{title}: {trials} to run, {stored} already in the store, {slots} at a time")

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has settled."""
        if dev is not None:
            varied = {name for axes in search.rounds for name in axes} | set(search.ranges)
            self._say(
                f"chosen for {search.label}: {_values(configuration, varied)} ({search.metric} {dev:.2f})"
            )

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""
        self.running[_identity(trial)] = (trial, {})

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """Steps, loss, perhaps a dev score."""
        self.running[_identity(trial)] = (trial, report)
        if report.get("dev") is not None and not self.console.is_terminal:
            self._say(
                f"  {self._name(trial)}: step {report['step']}/{report['total_steps']}, "
                f"loss {report['loss']:.3f}, dev {report['dev']:.2f}"
            )

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """Finished or failed."""
        self.running.pop(_identity(trial), None)
        self.done += 1
        name = self._name(trial)
        if report.get("status") != "finished":
            self.failed += 1
            self._say(f"[{self.done}/{self.total}] {name}: FAILED: {report.get('reason')}")
            return
        group = f"{trial.search} {trial.role}"
        self.best[group] = max(report["dev"], self.best.get(group, report["dev"]))
        self._say(
            f"[{self.done}/{self.total}] {name}: dev {report['dev']:.2f} (best {self.best[group]:.2f}); {self._left()}"
        )

    def _name(self, trial: Trial) -> str:
        shown = _values(trial.configuration, self.varied)
        return f"{trial.label} {shown}".strip()

    def _left(self) -> str:
        """Time left in this round, counting what the running trials have already done."""
        parts = sum(
            report["step"] / report["total_steps"] for _, report in self.running.values() if report
        )
        worked = self.done + parts
        if not worked:
            return "time left unknown"
        seconds = (time.monotonic() - self.clock) / worked * (self.total - worked)
        return f"about {duration(seconds)} left in this round"

    def _say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def _view(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for column in ("running", "step", "loss", "dev", "sentences/s"):
            table.add_column(
                column, justify="left" if column == "running" else "right", no_wrap=True
            )
        for trial, report in self.running.values():
            cells = (
                [f"{report['step']}/{report['total_steps']}", f"{report['loss']:.3f}"]
                if report
                else ["", ""]
            )
            dev = f"{report['dev']:.2f}" if report.get("dev") is not None else ""
            rate = f"{report['sentences_per_second']:.0f}" if report else ""
            table.add_row(escape(self._name(trial)), *cells, dev, rate)
        state = f"{self.title}: {self.done}/{self.total} done, {self.failed} failed; {self._left()}"
        return Group(table, Text(state, style="bold"))


def duration(seconds: float) -> str:
    """`2 h 5 min`, `3 min 20 s` or `12 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _identity(trial: Trial) -> tuple[str, int]:
    return repr(
        sorted(trial.configuration.items(), key=lambda item: item[0])
    ) + trial.method + trial.role, trial.seed


def _values(configuration: Mapping[str, Any], names: set[str]) -> str:
    return " ".join(
        f"{name}={configuration[name]}" for name in sorted(names) if name in configuration
    )
