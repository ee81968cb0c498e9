"""The progress of `harness prepare` on the screen: a line for each part, and how many are made."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from rich.console import Console

from harness.steps import Steps
from harness.sweeps.screen.sweep_state import Publish
from harness.sweeps.screen.terminal import Terminal


class Preparation(Terminal):
    """Tells how many of the parts that trials share are made. It is a SweepWatcher.

    It has no live view, in the place of which is what the steps are shown with.
    """

    def __init__(
        self,
        console: Console,
        publish: Publish,
        steps: Steps,
        aside: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`steps`: hears of the parts. `aside`: gives a block in which a line may be printed."""
        super().__init__(console, publish)
        self.steps, self.aside = steps, aside
        self.made, self.begun, self.known = 0, 0, 0

    def underway(self, titles: list[str], left: int | None) -> None:
        """So many parts are missing, as far as it is known; others may follow from them."""
        super().underway(titles, left)
        self.known = left or 0
        self._tell()

    def preparing(self, title: str) -> None:
        """A worker makes a part."""
        super().preparing(title)
        self.begun += 1
        self._tell()

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        """A part has been made, or cannot be."""
        super().prepared(title, reason, waiting)
        self.made += 1
        self._tell()

    def say(self, line: str) -> None:
        """Print a line."""
        with self.aside():
            super().say(line)

    def _tell(self) -> None:
        self.steps("making what the trials share", self.made, max(self.begun, self.known))
