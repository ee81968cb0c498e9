"""The progress of a sweep on the screen: a live view, plain lines, or one bar for Python."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from harness.errors import headline
from harness.sweeps.screen.live_view import (
    Publish,
    SweepState,
    count_text,
    duration,
    live_view,
    time_left,
)
from harness.sweeps.screen.watcher import SweepWatcher
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search
from harness.training.interruption import read_or_stopped
from harness.training.progress import Progress
from harness.trials.record import four_digits
from harness.trials.running import RunningTrial
from harness.trials.trial import Trial

SHOWN_ROUNDS = 3
"""Most rounds that are named of those that go on side by side"""


class Terminal(SweepWatcher):
    """A context in which a console shows what runs, what has ended, the best and the time left."""

    def __init__(self, console: Console, publish: Publish) -> None:
        """`publish`: hears of every change of the sweep's state."""
        self.console, self.publish = console, publish
        self.state = SweepState()
        self.running: dict[str, tuple[RunningTrial, float]] = {}
        """Label -> a running trial, and when it began by our clock"""
        self.best: dict[str, float] = {}
        """Search and role -> the best dev score"""
        self.preparation: dict[str, float] = {}
        """Title of a part that is being made -> since when"""
        self.waited: set[str] = set()
        """Reasons for which trials have waited"""
        self.live = Live(
            console=console, get_renderable=self._view, refresh_per_second=2, transient=True
        )

    def __enter__(self) -> "Terminal":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            with read_or_stopped():
                self.live.stop()

    def notice(self, sentence: str) -> None:
        # Soft wrapping keeps a line whole where the output is a file.
        with read_or_stopped():
            self.console.print(Text(sentence), soft_wrap=True)

    def round(self, title: str, to_run: int | None, stored: int, slots: int) -> None:
        self._change(slots=slots or self.state.slots)
        at_a_time = f", {slots} at a time" if slots else ""
        counts = f"{count_text(to_run)} to run, {stored} already in the store"
        self.notice(f"{title}: {counts}{at_a_time}")

    def underway(self, titles: list[str], left: int | None) -> None:
        shown, more = titles[:SHOWN_ROUNDS], len(titles) - SHOWN_ROUNDS
        title = "; ".join(shown) + (f"; {more} more" if more > 0 else "")
        self._change(
            title=title or self.state.title, to_run=None if left is None else self.state.done + left
        )

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        if dev is not None:
            values = " ".join(
                f"{name}={four_digits(configuration[name])}"
                for name in search.searched
                if name in configuration
            )
            self.notice(f"chosen for {search.label}: {values} ({search.metric} {dev:.2f})")

    def started(self, trial: Trial) -> None:
        self.running[trial.label] = (RunningTrial(trial.label), time.monotonic())

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        before, began = self.running.get(trial.label, (RunningTrial(trial.label), time.monotonic()))
        progress = Progress(**{name: report[name] for name in Progress.__dataclass_fields__})
        self.running[trial.label] = (before.after(progress, time.monotonic() - began), began)
        # In a terminal, the live view shows the same numbers.
        if progress.dev is not None and not self.console.is_terminal:
            self.notice(
                f"  {trial.label}: step {progress.step}/{progress.total_steps}, "
                f"loss {progress.loss:.3f}, dev {progress.dev:.2f}"
            )

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        label, status = trial.label, report.get("status")
        self._leave(label, done=1, failed=status == "failed", pruned=status == "pruned")
        where = f"[{self.state.done}/{count_text(self.state.to_run)}] {label}"
        if status == "pruned":
            self.notice(f"{where}: dev {report['dev']:.2f}, {headline(report.get('reason'))}")
            return
        if status != "finished":
            see = f"; see `{report['logs']}`" if "logs" in report else ""
            self.notice(f"{where}: FAILED: {headline(report.get('reason'))}{see}")
            return
        group, dev = f"{trial.search} {trial.role}", report["dev"]
        self.best[group] = max(dev, self.best.get(group, dev))
        if self.state.best is None or dev > self.state.best:
            self._change(best=dev, best_label=label)
        left = time_left(self.state, self._trials())
        self.notice(f"{where}: dev {dev:.2f} (best {self.best[group]:.2f}); {left}")

    def postponed(self, trial: Trial, why: str) -> None:
        self._leave(trial.label)
        if why not in self.waited:  # several trials may wait for the same, and try several times
            self.waited.add(why)
            self.notice(f"  {trial.label} waits: {why}")

    def preparing(self, title: str) -> None:
        self.preparation[title] = time.monotonic()
        if not self.console.is_terminal:  # there, the live view shows it
            self.notice(f"  {title}: begun")

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        seconds = time.monotonic() - self.preparation.pop(title, time.monotonic())
        self._change(failed=self.state.failed + (reason is not None))
        result = f"FAILED: {headline(reason)}" if reason else f"made in {duration(seconds)}"
        self.notice(f"  {title}: {result}")

    def stopping(self, running: int) -> None:
        self.notice(
            f"Stopping: {running} running trials save their state; Ctrl-C again stops at once."
        )

    def _leave(self, label: str, *, done: int = 0, failed: int = 0, pruned: int = 0) -> None:
        """A trial runs no longer."""
        now = time.monotonic()
        _, began = self.running.pop(label, (None, now))
        state = self.state
        self._change(
            done=state.done + done,
            failed=state.failed + failed,
            pruned=state.pruned + pruned,
            trial_seconds=state.trial_seconds + now - began,
        )

    def _change(self, **changed: Any) -> None:
        self.state = replace(self.state, **changed)
        self.publish(self.state)

    def _trials(self) -> list[RunningTrial]:
        """The running trials, with the time that they have taken by now."""
        now = time.monotonic()
        return [replace(trial, seconds=now - began) for trial, began in self.running.values()]

    def _view(self) -> Group:
        now = time.monotonic()
        parts = [RunningTrial(title, now - since) for title, since in self.preparation.items()]
        return live_view([self.state], [*parts, *self._trials()])


class Bar(SweepWatcher):
    """A bar over the trials, in Python and notebooks; above it stands what the user should know."""

    def __init__(self) -> None:
        from tqdm.auto import tqdm  # no verb needs it

        self._bar = tqdm(unit="trial")

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()

    def notice(self, sentence: str) -> None:
        self._bar.write(sentence)

    def underway(self, titles: list[str], left: int | None) -> None:
        self._bar.total = None if left is None else self._bar.n + left
        self._bar.set_description("; ".join(titles))

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        if dev is not None:
            self.notice(f"chosen for {search.label}: {search.metric} {dev:.2f}")

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        self._bar.set_postfix_str(f"{trial.label}: {report['step']}/{report['total_steps']}")

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        self._bar.update()
        if report["status"] == "failed":
            self.notice(f"{trial.label}: FAILED: {report['reason']}")

    def preparing(self, title: str) -> None:
        self._bar.set_postfix_str(title)

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        if reason is not None:
            self.notice(f"{title}: FAILED: {reason}")

    def stopping(self, running: int) -> None:
        self.notice(f"Stopping: {running} running trials save their state.")
