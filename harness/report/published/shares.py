"""What share of the papers' tables and figures a store has."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.published.comparison import Comparer
from harness.report.published.matching import Wanted
from harness.report.published.measures import Special
from harness.report.published.reported import Paper
from harness.report.published.systems import load_systems


@dataclass(frozen=True)
class Share:
    """How much of a table or a figure a store has; a cell is a value that the paper prints."""

    name: str
    """Such as `Table 3` or `Figure 2`"""
    about: str
    noun: str
    """What is counted, such as `cells`"""
    filled: int
    runnable: int
    """Those that are filled, and those that can be run here"""
    needing: int
    """Those that need something of the user's, such as a file"""
    quoted: int
    """Those that no method here makes"""

    def __str__(self) -> str:
        needing = f"{self.needing} need input" if self.needing else ""
        quoted = f"{self.quoted} quoted only" if self.quoted else ""
        found = f"{self.filled} of {self.runnable} {self.noun}"
        return ", ".join(filter(None, [found, needing, quoted]))


def shares(paper: Paper, comparer: Comparer, methods: Collection[str]) -> Iterator[Share]:
    """The share of each table and each figure of a paper, in the paper's order.

    methods: the names of the methods that can be run here.
    """
    for name in paper.shown:
        yield table_share(comparer.table(paper, name), methods)
    for place, figure in load_systems().figures.items():
        of, _, name = place.partition(".")
        if of == paper.paper:
            points = [
                (wanted, bool(found and found.group.current))
                for wanted, found in comparer.figure(place)
            ]
            title = f"Figure {name.removeprefix('figure')}"
            yield _share(title, figure.about, "runs", points, methods)


def table_share(table: ComparedTable, methods: Collection[str]) -> Share:
    """The share of a table; all hyperparameters of a method that is here have a default."""
    title, numbers = f"Table {table.number}", [each for each in table.numbers if _counts(each)]
    if table.table.kind == "hyperparameters":
        there = [(each.wanted, _here(each.wanted, methods)) for each in numbers]
        return _share(title, table.table.about, "defaults", there, methods)
    cells = [(each.wanted, _filled(each)) for each in numbers]
    return _share(title, table.table.about, "cells", cells, methods)


def _share(
    title: str,
    about: str,
    noun: str,
    cells: Sequence[tuple[Wanted | None, bool]],
    methods: Collection[str],
) -> Share:
    filled = sum(there for _, there in cells)
    runnable = sum(there or _here(wanted, methods) for wanted, there in cells)
    needing = sum(bool(wanted and wanted.needs) and not there for wanted, there in cells)
    return Share(title, about, noun, filled, runnable, needing, len(cells) - runnable - needing)


def _counts(each: ComparedNumber) -> bool:
    return each.value is not None and each.measure is not Special.GIVEN


def _filled(each: ComparedNumber) -> bool:
    if each.measure in (Special.SENTENCE, Special.COSINE):
        return each.found is not None and not each.foreign
    return each.cell is not None and not each.foreign


def _here(wanted: Wanted | None, methods: Collection[str]) -> bool:
    return wanted is not None and wanted.method in methods and not wanted.needs
