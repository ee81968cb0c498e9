"""The rows of a table: typed cells of scores, and their text."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.catalogue import DISPLAY
from harness.report.measured.groups import Cell
from harness.report.statistics.significance import agrees

SheetLine = list[str]
"""The cells of one line of a table, as text"""

FOREIGN = "†"
"""The mark at scores of another protocol"""
LEAK = "‡"
"""The mark at scores of tests that stand in the training data"""


BEST = "★"
"""The sign of what is bold, where nothing can be printed in bold"""


class Bold(str):
    """Text that is printed in bold."""

    __slots__ = ()


@dataclass(frozen=True)
class Leak:
    """How much of a test stands in the training data."""

    task: str
    known: int
    """Its pairs whose two sentences stand together in one item; of a test that is not of pairs, its
    distinct sentences that the training data have, but for case, punctuation and spaces"""
    whole: int

    def __str__(self) -> str:
        return f"{DISPLAY.get(self.task, self.task)} {self.known} of {self.whole}"


@dataclass(frozen=True)
class SheetCell:
    """A cell of scores: ours, and beside a paper the published number."""

    score: Cell | None = None
    """Mean, std, n, components and trials of our score; None: the store has none"""
    decimals: int = 2
    published: float | None = None
    published_std: float | None = None
    printed: str = ""
    """The published value as the paper prints it, such as `68.40` or `yes`"""
    source: str = ""
    """A mark at the published number that cites its source, such as `[2]`"""
    mark: str = ""
    """A mark at our score, which a note under the table explains"""
    leaks: tuple[Leak, ...] = ()
    """The tests behind our score that stand in the training data"""
    comparable: bool = True
    """Whether our score may be subtracted from and ranked; else its mark says why not"""
    expected: bool = False
    """Whether trials of ours can fill it; else the published number is only quoted"""
    why_not: str = ""
    """Why ours is not compared with the published number; "": it is"""
    best: bool = False
    """Whether it is the best of its column, or not significantly worse"""
    group: int | None = None
    """The group of rows that cannot be told apart in this column, 1 for the best; None: no group"""

    @property
    def delta(self) -> float | None:
        """Our mean minus the published number, where both are there and comparable."""
        if self.score is None or self.published is None or self.why_not:
            return None
        return self.score.mean - self.published

    @property
    def agrees(self) -> bool | None:
        """Whether the published number lies within the spread of our seeds; None: unknown."""
        if self.delta is None or self.score is None or self.published is None:
            return None
        if not self.score.trained:  # the same every time, so only rounding may differ
            return round(self.delta, self.decimals) == 0
        return agrees(self.score.mean, self.score.std, self.score.n, self.published)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of our trials, sorted."""
        return self.score.keys if self.score else ()

    @property
    def text(self) -> str:
        """Our score as text: `mean±std` and the mark; "" where there is none."""
        if self.score is None:
            return ""
        group = "" if self.group is None else f" ({self.group})"
        mark = self.mark + (LEAK if self.leaks else "")
        shown = score_text(self.score, self.decimals) + mark + group
        return Bold(shown) if self.best else shown

    @property
    def published_text(self) -> str:
        """The published value as text, with its source; "" where there is none."""
        std = "" if self.published_std is None else f"±{self.published_std}"
        return f"{self.printed}{std}{self.printed and self.source and f' {self.source}'}"

    @property
    def delta_text(self) -> str:
        """The difference as text: `≈` where the two agree, and `≠` where they do not."""
        sign = {True: "≈", False: "≠", None: ""}[self.agrees]
        return difference_text(self.delta, self.decimals) + sign


@dataclass(frozen=True)
class ScoreRow:
    """A row of scores: the names of the trials, n, and a cell for each column of scores."""

    names: tuple[str, ...]
    n: str
    cells: tuple[SheetCell, ...]
    address: str = ""
    """What `harness show` calls the row, such as `3`; a cell of it is then `3.avg`"""
    complete: bool = True
    """Whether no test of the suite is missing; else the row is never the best"""
    block: tuple[str, ...] = ()
    """The rows with the same values here are ranked together"""

    @property
    def score_line(self) -> int:
        """The line that has the scores."""
        return 0

    @property
    def lines(self) -> list[SheetLine]:
        """The line of the scores, and lines of the components of their variance, if any."""
        # The first column has the name of the component; the other text columns and n are empty.
        blank = [""] * len(self.names)
        return [
            [*self.names, self.n, *(cell.text for cell in self.cells)],
            *([part, *blank, *numbers] for part, numbers in component_lines(self.cells)),
        ]


@dataclass(frozen=True)
class ComparedRow(ScoreRow):
    """A row of a paper: `names` has one name, and a second text column says which line it is."""

    published_n: str = ""
    """The number of runs behind the published numbers, where the paper says it"""
    without: str = ""
    """Why there can be no score of ours, such as `no method`"""

    @property
    def score_line(self) -> int:
        """The line that has the scores."""
        return 1

    @property
    def lines(self) -> list[SheetLine]:
        """The published line; then ours and Δ where there are scores, or why there can be none."""
        published = [cell.published_text for cell in self.cells]
        lines = [[*self.names, "published", self.published_n, *published]]
        if any(cell.score for cell in self.cells):
            parts = component_lines(self.cells)
            differences = [cell.delta_text for cell in self.cells]
            lines += [
                ["", "ours", self.n, *(cell.text for cell in self.cells)],
                *(["", name, "", *numbers] for name, numbers in parts),
                *([["", "Δ", "", *differences]] if any(differences) else []),
            ]
        elif self.without:
            lines.append(["", self.without, "", *("" for _ in self.cells)])
        return lines


def n_text(numbers: Sequence[str]) -> str:
    """The numbers of trials of several columns, each once: `3, 5x3`."""
    found = [n for n in dict.fromkeys(numbers) if n != "0"]
    return ", ".join(found) or "0"


def value_text(value: float | bool | str) -> str:
    """A published value or one of our defaults as text: `yes`, `0.001`, `2`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else value


def score_text(cell: Cell | None, decimals: int = 2) -> str:
    """`mean±std`; the mean alone for one trial, and "" for no trial."""
    if cell is None:
        return ""
    spread = "" if cell.std is None else f"±{cell.std:.{decimals}f}"
    return f"{cell.mean:.{decimals}f}{spread}"


def component_lines(cells: Sequence[SheetCell]) -> list[tuple[str, list[str]]]:
    """The lines of the components of the variance, which stand under a line of scores.

    Each line is its name and its numbers. There are none when no cell has components.
    """
    known = [
        (cell.score.components if cell.score else None, f".{cell.decimals}f") for cell in cells
    ]
    if not any(each for each, _ in known):
        return []
    return [
        (
            "std between subsets",
            [format(each.between, places) if each else "" for each, places in known],
        ),
        (
            "std within subsets",
            [format(each.within, places) if each else "" for each, places in known],
        ),
    ]


def difference_text(value: float | None, decimals: int = 2) -> str:
    """A difference with its sign, and never `-0.00`; "" where there is none."""
    # Adding 0.0 turns -0.0 into 0.0.
    return "" if value is None else f"{round(value, decimals) + 0.0:+.{decimals}f}"
