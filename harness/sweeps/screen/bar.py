"""The progress of a sweep as one bar, for Python and notebooks."""

from collections.abc import Mapping
from typing import Any

from tqdm.auto import tqdm

from harness.sweeps.screen.watcher import SweepWatcher
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search
from harness.trials.trial import Trial


class Bar(SweepWatcher):
    """A bar over the trials, above which stands what the user should know."""

    def __init__(self) -> None:
        self._bar = tqdm(unit="trial")

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()

    def notice(self, sentence: str) -> None:
        """Print a sentence above the bar."""
        self._bar.write(sentence)

    def underway(self, titles: list[str], left: int | None) -> None:
        """These rounds go on now, and so many trials are left of them."""
        self._bar.total = None if left is None else self._bar.n + left
        self._bar.set_description("; ".join(titles))

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has chosen a configuration."""
        if dev is not None:
            self.notice(f"chosen for {search.label}: {search.metric} {dev:.2f}")

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has done more steps."""
        self._bar.set_postfix_str(f"{trial.label}: {report['step']}/{report['total_steps']}")

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has finished or failed."""
        self._bar.update()
        if report["status"] == "failed":
            self.notice(f"{trial.label}: FAILED: {report['reason']}")

    def preparing(self, title: str) -> None:
        """A worker makes a part that trials share."""
        self._bar.set_postfix_str(title)

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        """A part has been made, or cannot be."""
        if reason is not None:
            self.notice(f"{title}: FAILED: {reason}")

    def stopping(self, running: int) -> None:
        """The sweep is interrupted."""
        self.notice(f"Stopping: {running} running trials save their state.")
