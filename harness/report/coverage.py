"""Shares of the papers' tables and figures that a store has, and commands that fill the rest."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.errors import counted
from harness.evaluation.catalogue import DISPLAY, suite_option
from harness.report.cells import Cell
from harness.report.groups import Group
from harness.report.matching import Commands, Wanted
from harness.report.paper import Paper, load_systems
from harness.report.paper_cells import Comparer, PaperTable
from harness.report.quantities import Special
from harness.trials.record import Record


@dataclass(frozen=True)
class Share:
    """The share of a table or a figure in a store; a cell is a value that the paper prints."""

    name: str
    """Such as `Table 3` or `Figure 2`"""
    about: str
    noun: str
    """The things that are counted, such as `cells`"""
    filled: int
    runnable: int
    """The filled ones, and those that can be run here"""
    needing: int
    """The number of those that need something of the user's, such as a file"""
    quoted: int
    """The number of those that no method here makes"""

    def __str__(self) -> str:
        needing = f"{self.needing} need input" if self.needing else ""
        quoted = f"{self.quoted} quoted only" if self.quoted else ""
        filled = f"{self.filled} of {self.runnable} {self.noun}"
        return ", ".join(filter(None, [filled, needing, quoted]))


def shares(paper: Paper, comparer: Comparer, methods: Collection[str]) -> Iterator[Share]:
    """The share of each table and each figure of a paper, in the paper's order.

    methods: the names of the methods that can be run here.
    """
    for name in paper.shown:
        yield table_share(comparer.table(paper, name), methods)
    for name, of_table in paper.figures.items():
        share = table_share(comparer.table(paper, of_table.table), methods)
        title = f"Figure {name.removeprefix('figure')}"
        yield replace(share, name=title, about=of_table.about, noun="points")
    for of_figure, figure in load_systems().figures.items():
        of, _, name = of_figure.partition(".")
        if of == paper.paper:
            points = [
                (wanted, bool(group and group.current))
                for wanted, group in comparer.figure(of_figure)
            ]
            title = f"Figure {name.removeprefix('figure')}"
            yield _share(title, figure.about, "runs", points, methods)


def table_share(compared: PaperTable, methods: Collection[str]) -> Share:
    """The share of a table; all hyperparameters of a method that is here have a default."""
    defaults, cells = compared.table.kind == "hyperparameters", []
    for cell in compared.cells:
        published = cell.published
        if published is None or published.measure is Special.GIVEN:
            continue
        if published.value is None and not cell.alone:
            continue
        asked = published.measure in (Special.SENTENCE, Special.COSINE)  # of a model of the trials
        filled = (cell.group if asked else cell.ours) is not None and not cell.is_foreign
        cells.append((cell.wanted, _here(cell.wanted, methods) if defaults else filled))
    noun = "defaults" if defaults else "cells"
    return _share(f"Table {compared.number}", compared.table.about, noun, cells, methods)


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


def _here(wanted: Wanted | None, methods: Collection[str]) -> bool:
    return wanted is not None and wanted.is_here(methods) and not wanted.needs


def lacking(compared: PaperTable, seeds: int, subsets: int) -> list[Wanted]:
    """The trials that would fill the gaps of a table, each once, in the order of its cells.

    A cell is filled by so many `seeds`, and by so many label `subsets` with each of them where it
    uses a share of the labels. Where a trial is there and only a suite has not measured it, nothing
    is lacking but `harness eval`. Cells that are only quoted are left out.
    """
    if compared.table.kind == "hyperparameters":
        return []
    gaps = (cell for cell in compared.cells if not _has_all(cell, seeds, subsets))
    return list(dict.fromkeys(cell.wanted for cell in gaps if cell.wanted))


def _has_all(cell: Cell, seeds: int, subsets: int) -> bool:
    """Whether the store has as many trials for a cell as are asked for."""
    if cell.group is None or cell.wanted is None or cell.is_foreign:
        return False
    trials = cell.group.trials
    if not trials[0].trained:
        return True
    share = dict(cell.wanted.configuration).get("label_fraction", 1) < 1
    return len(trials) >= seeds * (subsets if share else 1)


@dataclass(frozen=True)
class Gap:
    """Something that the store lacks, and the command that fills it."""

    lack: str
    command: str


def paper_gaps(paper: Paper, comparer: Comparer, commands: Commands) -> Iterator[Gap]:
    """The tables of a paper that the store has not filled, each with its command."""
    for name in paper.shown:
        table = comparer.table(paper, name)
        share = table_share(table, commands.methods)
        if share.filled < share.runnable and table.table.kind != "hyperparameters":
            command = commands.table("sweep", paper.paper, table.number)
            yield Gap(f"{share.name}, {share.about}: {share}", command)


def store_gaps(groups: Iterable[Group], commands: Commands) -> Iterator[Gap]:
    """The tests that some trial of a row lacks, with the command for the first such trial."""
    for part in (part for group in groups for part in group.parts):
        lacking = [name for name in part.tasks if name not in part.test]
        if not lacking:
            continue
        suite = str(part.suite)
        trial = next(
            trial
            for trial in part.trials
            if any(name not in trial.suites[suite].test for name in lacking)
        )
        tests = ", ".join(DISPLAY.get(name, name) for name in lacking)
        row = f"{part.method} {part.setting} {part.encoder}"
        evaluation = commands.evaluation(part.model(trial), suite_option(suite))
        yield Gap(f"{row} has no score of {tests}", evaluation)


def failed_trials(records: Iterable[Record], command: Callable[[Record], str]) -> Iterator[Gap]:
    """The trials that failed, by method, setting and encoder; the command runs the first again."""
    failed = [each for each in records if each.status == "failed" and each.role != "evaluation"]
    kinds = Counter((each.method, each.setting, each.encoder) for each in failed)
    for kind, count in sorted(kinds.items()):
        first = next(each for each in failed if (each.method, each.setting, each.encoder) == kind)
        more = "; the same sweep tries all of them again" if count > 1 else ""
        failures = f"{counted(count, 'failed trial')} of {' '.join(kind)}{more}"
        yield Gap(failures, command(first))
