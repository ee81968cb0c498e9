"""The progress of a verb that computes: a line on stderr at once, and a bar in a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from harness.cli.output import Screen, echo
from harness.errors import visible


@contextmanager
def working(title: str) -> "Iterator[Work]":
    """In the block, stderr tells what is done.

    title: the whole of it in words, which are printed at once. So the modules that take long to
    import are imported in the block.
    """
    echo(title, err=True)
    work = Work(title)
    with work.bar if work.terminal else nullcontext():
        yield work


class Work:
    """Tells on stderr what is being done. It is a `harness.steps.Steps`.

    In a terminal the present step is a bar, which goes when the work ends. Elsewhere each step is a
    line when it begins.
    """

    def __init__(self, title: str) -> None:
        console = Screen(stderr=True)
        self.terminal, self._told = console.is_interactive, {title}
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            _TimeLeft(),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # rich would write it to stderr
        )
        self._step, self._task = title, self._added(title)

    def __call__(self, step: str, done: int = 0, total: int = 0) -> None:
        """Show a step and how far it is, as `Steps` describes them."""
        if not self.terminal:
            if step not in self._told:
                self._told.add(step)
                echo(f"{step} ({total:,})" if total else step, err=True)
            return
        if step != self._step:
            self.bar.remove_task(self._task)
            self._step, self._task = step, self._added(step)
        count = f"{done:,} of {total:,}" if total else ""
        self.bar.update(self._task, total=total or None, completed=done, count=count)

    def _added(self, step: str) -> TaskID:
        """A bar for a step; the text is cleaned first, so that its width is known."""
        return self.bar.add_task(visible(step), total=None, count="")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """In the block, lines are printed on stdout, where the bar would be in their way."""
        if self.terminal:
            self.bar.stop()
        yield
        if self.terminal:
            self.bar.start()


class _TimeLeft(TimeRemainingColumn):
    """The estimate of the time that a step still takes; nothing where there is none."""

    def render(self, task: Task) -> Text:
        """The estimate as text."""
        return Text() if task.time_remaining is None else super().render(task) + Text(" left")
