"""Output of verbs, in which no text of others gives orders to a terminal."""

from collections.abc import Iterable

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from harness.errors import visible


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text, with what a terminal would obey shown by its escapes.

    nl: whether a line end follows. err: whether it goes to stderr.
    """
    typer.echo(visible(text), nl=nl, err=err)


class Screen(Console):
    """A console that shows what a terminal would obey by its escapes, but for rich's own orders.

    It marks nothing by itself: neither numbers (`highlight`) nor words in brackets (`markup`).
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def say(self, text: RenderableType) -> None:
        """Print a text on a line of its own, which is not broken where the screen ends."""
        self.print(text, soft_wrap=True)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of something to print, cleaned."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text), style)
