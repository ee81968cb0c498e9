"""The tables of a paper: each published number, ours below it, and commands for missing ones."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import pyarrow as pa

from harness.errors import UserError, suggest
from harness.evaluation.catalogue import CARDS, DISPLAY, STAND_INS
from harness.report.commands import Commands
from harness.report.comparison import ComparedNumber, compare_table
from harness.report.groups import comparable_groups
from harness.report.matching import Finder
from harness.report.measured_trials import MeasuredTrial
from harness.report.notes import made_on, unreadable
from harness.report.ranking import ranked
from harness.report.reported import Paper, ReportedTable, Systems, load_paper, load_systems
from harness.report.rows import FOREIGN, ComparedRow, SheetCell
from harness.report.sheet import (
    CELL_COLUMNS,
    OVER_SUBSETS,
    Section,
    Sheet,
    cell_record,
    key_list,
)
from harness.trials.reading import Reading

PAPER_SCHEMA = pa.schema(
    [
        *(
            (name, pa.string())
            for name in ("paper", "table", "group", "label", "system", "variant")
        ),
        *((name, pa.string()) for name in ("method", "setting", "encoder", "column", "origin")),
        ("published", pa.float64()),  # in the units of the table, like our mean
        ("published_std", pa.float64()),
        ("suite", pa.string()),  # that has measured our trials
        *CELL_COLUMNS,
        ("delta", pa.float64()),  # our mean - published
        ("candidates", pa.int64()),  # number of groups among which one was chosen
        ("keys", pa.string()),  # the first characters of the keys of the trials
        ("command", pa.string()),
        ("obstacle", pa.string()),  # why the command cannot be run yet
    ]
)


def paper_sheets(
    reading: Reading, name: str, commands: Commands, number: str | None = None
) -> list[Sheet]:
    """The compared tables of the paper `name`, with our numbers below the published ones.

    number: of a table; None: all of them. Raises UserError for a paper without reported numbers,
    and for a table that it does not have.
    """
    paper, systems = load_paper(name), load_systems()
    if number is not None and number not in paper.numbers:
        raise UserError(
            f"Table {number} of {name} cannot be compared{suggest(number, paper.numbers)}"
        )
    shown = paper.compared if number is None else [paper.numbers[number]]
    finder = Finder(comparable_groups(reading.table))
    sheets = [_PaperSheet(paper, table, systems, finder, commands).sheet() for table in shown]
    last = replace(sheets[-1], notes=[*sheets[-1].notes, *unreadable(reading)])
    return [*sheets[:-1], last]


class _PaperSheet:
    """One published table with our numbers."""

    def __init__(
        self, paper: Paper, name: str, systems: Systems, finder: Finder, commands: Commands
    ) -> None:
        self.paper, self.name, self.commands = paper, name, commands
        self.table = paper.tables[name]
        self.sections = compare_table(self.table, f"{paper.paper}.{name}", systems, finder)
        self.comparisons = [each for _, rows in self.sections for row in rows for each in row]
        named = (name for each in self.comparisons for name in (str(each.row.origin), each.origin))
        self.origins = list(dict.fromkeys(named))
        """The sources of the published numbers; a source is cited by its place in this list"""

    def sheet(self) -> Sheet:
        """The table as a sheet, which can be rendered."""
        number = self.name.removeprefix("table")
        return Sheet(
            title=f"{self.paper.title}. Table {number}: {self.table.about}",
            columns=["", "", "n", *map(str, self.table.columns)],
            text_columns=2,
            sections=self._sections(),
            caption=" ".join(filter(None, [_caption(self.table), made_on(self._trials())])),
            notes=[
                *self._sources(),
                *_stand_ins(self.comparisons),
                *_choices(self.comparisons),
                *self._to_fill(),
            ],
            make_records=lambda: pa.Table.from_pylist(
                [self._record(each) for each in self.comparisons], schema=PAPER_SCHEMA
            ),
            metrics=[str(column) for column in self.table.columns],
            averages=[str(column) for column in self.table.columns if column == "Avg."],
        )

    def _trials(self) -> Iterator[MeasuredTrial]:
        return (
            trial
            for each in self.comparisons
            if each.measured and each.cell
            for trial in each.measured.trials
        )

    def _sections(self) -> list[Section]:
        directions, numbers = self._directions(), count(1)
        return [
            Section(
                heading,
                ranked([self._row(row, next(numbers)) for row in rows], directions, average=None),
            )
            for heading, rows in self.sections
        ]

    def _directions(self) -> list[int]:
        """For each column, whether a higher score is better; dev scores are not ranked."""
        row = self.sections[0][1][0]
        return [
            CARDS[each.metric.suite].directions.get(each.metric.name, 1)
            if each.metric.split == "test"
            else 0
            for each in row
        ]

    def _row(self, row: list[ComparedNumber], number: int) -> ComparedRow:
        reported = row[0].row
        own = reported.origin == "this paper"
        return ComparedRow(
            names=(f"{reported.label} {self._source(str(reported.origin))}",),
            n=_n(row),
            cells=tuple(map(self._cell, row)),
            address=f"{self.paper.paper}.{self.name.removeprefix('table')}.{number}",
            complete=all(each.cell for each in row),
            published_n=str(self.table.runs.get(reported.system, "")) if own else "",
            without="no method" if self._without_method(row) else "",
        )

    def _cell(self, each: ComparedNumber) -> SheetCell:
        current = each.measured is None or each.measured.current
        return SheetCell(
            score=each.cell,
            decimals=each.decimals,
            published=each.published,
            published_std=each.published_std,
            source="" if each.origin == each.row.origin else self._source(each.origin),
            mark=("*" if each.stands_in else "") + ("" if current else FOREIGN),
            comparable=current,
            expected=bool(
                each.published is not None
                and each.wanted
                and not self.commands.obstacle(each.wanted)
            ),
        )

    def _without_method(self, row: list[ComparedNumber]) -> bool:
        needed = {each.wanted.method for each in row if each.wanted}
        return bool(needed) and needed.isdisjoint(self.commands.methods)

    def _source(self, origin: str) -> str:
        return f"[{self.origins.index(origin) + 1}]"

    def _sources(self) -> list[str]:
        """Notes: the sources of the published numbers, and the number of runs behind them."""
        origins = [origin.replace("quoted:", "quoted from ") for origin in self.origins]
        runs = self.table.runs.items()
        return [
            *(f"[{index}] {origin}" for index, origin in enumerate(origins, 1)),
            *(f"published, {name}: {n}" for name, n in runs if name in self.table.columns),
        ]

    def _to_fill(self) -> list[str]:
        """Notes: the commands for missing numbers, and the rows that cannot be run yet."""
        # Dictionaries as sets that keep the order of the table.
        missing: dict[str, None] = {}
        unmeasured: dict[str, None] = {}
        waiting: dict[str, dict[str, None]] = defaultdict(dict)
        for each in self.comparisons:
            target = each.wanted
            if each.found:
                for trial in each.unmeasured:
                    group, suite = each.found.group, each.metric.suite
                    unmeasured[self.commands.evaluation(trial, group, suite)] = None
            elif target and (reason := self.commands.obstacle(target)):
                row = f"{each.row.label} ({target.setting}, {target.encoder})"
                waiting[reason][row] = None
            elif target:
                missing[self.commands.sweep(target)] = None
        lines = [f"  {command}" for command in (*missing, *unmeasured)]
        return [
            *(["To fill:", *lines] if lines else []),
            *(["Not available yet:"] if waiting else []),
            *(f"  {reason}: {'; '.join(waiting[reason])}" for reason in sorted(waiting)),
        ]

    def _record(self, each: ComparedNumber) -> dict[str, object]:
        target = each.wanted
        return {
            "paper": self.paper.paper,
            "table": self.name,
            "group": each.group,
            "label": each.row.label,
            "system": each.row.system,
            "variant": each.row.variant,
            "method": target.method if target else None,
            "setting": target.setting if target else each.row.setting,
            "encoder": target.encoder if target else each.row.encoder,
            "column": each.column,
            "origin": each.origin,
            "published": each.published,
            "published_std": each.published_std,
            "suite": each.measured.suite if each.cell and each.measured else None,
            **cell_record(each.cell),
            "delta": each.delta,
            "candidates": each.found.candidates if each.found else 0,
            "keys": key_list(each.measured.keys) if each.measured else "",
            "command": self.commands.sweep(target) if target else None,
            "obstacle": self.commands.obstacle(target) if target else "quoted only",
        }


def _caption(table: ReportedTable) -> str:
    protocol = CARDS[table.suite].protocol
    parts = [
        f"{table.metric[0].upper()}{table.metric[1:]}; ours: mean±sample std over n seeds, "
        "selected on dev, test never selects; Δ = ours - published.",
        f"Ours: {protocol}" if protocol else "",
        OVER_SUBSETS if table.fractions else "",
    ]
    return " ".join(part for part in parts if part)


def _n(row: list[ComparedNumber]) -> str:
    """One n where all columns have the same, else the n of each column."""
    numbers = [each.measured.n if each.measured else "0" for each in row]
    return numbers[0] if len(set(numbers)) == 1 else "/".join(numbers)


def _stand_ins(comparisons: Iterable[ComparedNumber]) -> list[str]:
    """Notes about the suites whose scores stand in the place of those that the paper used."""
    marked = {each.metric.suite for each in comparisons if each.stands_in}
    return [
        f"* measured with the suite {STAND_INS[suite]}; the paper used the protocol of {suite}: "
        f"{CARDS[suite].protocol}"
        for suite in sorted(marked)
    ]


def _choices(comparisons: Iterable[ComparedNumber]) -> list[str]:
    """Notes about the numbers for which several groups of comparable trials were candidates."""
    return list(
        dict.fromkeys(
            f"{each.wanted}: {each.found.candidates} groups of comparable trials; shown is the one "
            f"with the best mean {DISPLAY.get(each.found.group.selects, each.found.group.selects)}"
            for each in comparisons
            if each.found and each.found.candidates > 1
        )
    )
