"""From a cell of a table to its trials, and to the command that runs them again."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from harness.errors import UserError, counted, suggest
from harness.evaluation.catalogue import DISPLAY
from harness.plugin.registry import sources
from harness.report.cells import Cell, score_text
from harness.report.groups import Score
from harness.report.matching import Commands
from harness.report.measured_trials import TABLE_COLUMNS, SuiteOfData, suite_of_data
from harness.report.paper_cells import Answers
from harness.report.paper_tables import paper_tables
from harness.report.papers import cell_address, load_paper, papers, table_names
from harness.report.quantities import PAPER_COLUMNS
from harness.report.store_tables import DEV, store_tables
from harness.report.tables import Row, Table, address_name
from harness.trials.record import Record
from harness.trials.run_again import again
from harness.trials.schema import WITHOUT_LARGE
from harness.trials.store import Store


def cell_facts(address: str, encoder: str | None, store: Store) -> Iterator[str]:
    """The lines about the cell that an address names: `3.avg`, or `diffaug.6.3.avg` of a paper.

    encoder: that of our trials, in the place of the paper's. Raises UserError where there is no
    such cell.
    """
    start, _, rest = address.partition(".")
    if start.isdecimal() and len(start) < 10:
        return _own(int(start), rest, store)
    return _compared(address, encoder, store)


def _own(row: int, metric: str, store: Store) -> Iterator[str]:
    tables = store_tables(store.read(TABLE_COLUMNS), store.place)
    name, cell = store_cell(tables, row, metric)
    group, score = cell.group, cell.ours
    if score is None or group is None:
        raise UserError(f"row {row} has no score {name}: not all of its trials have it")
    yield f"{name} of {group.method} {group.setting} {group.encoder}"
    yield from _score(score, cell.decimals, store)


def store_cell(tables: Iterable[Table], row: int, metric: str) -> tuple[str, Cell]:
    """The name of the metric that is meant, and the cell of a row of a store's tables.

    A score that one suite of the row has, or all of them alike, needs no name of a suite. Raises
    UserError where there is no such row or metric.
    """
    rows = [(table, each) for table in tables for each in table.rows]
    numbers = {each.address for _, each in rows}
    if str(row) not in numbers:
        last = len(numbers)
        raise UserError(f"there is no row {row}: the rows of `harness table` are 1 to {last}")
    own = [(table, each) for table, each in rows if each.address == str(row)]
    cells = {
        name: cell
        for table, each in reversed(own)
        for name, cell in zip(table.metrics, each.cells, strict=True)
    }
    bare: dict[str, list[Cell]] = defaultdict(list)
    for column, cell in cells.items():
        bare[column.rpartition(":")[2]].append(cell)
    alike = (own for own in bare.items() if all(cell.ours == own[1][0].ours for cell in own[1]))
    cells = {column: own[0] for column, own in alike} | cells
    if (dev := cells.get(DEV)) and dev.group:
        cells.setdefault(dev.group.selects, dev)
    name = _named_as_typed(metric, {name: DISPLAY.get(name, name) for name in cells})
    if name is None:
        several = sorted(name for name in cells if metric and name.endswith(f":{metric}"))
        meant = f"; several suites have it: {', '.join(several)}" if several else ""
        raise UserError(f'row {row} has no score "{metric}"{meant or suggest(metric, cells)}')
    return name, cells[name]


def _compared(address: str, encoder: str | None, store: Store) -> Iterator[str]:
    named = cell_address(address)
    if named is None:
        paper = address.partition(".")[0]
        raise UserError(
            f'"{address}" names no cell: a cell of the store is ROW.METRIC, such as 3.avg, and one '
            f"of a paper is PAPER.TABLE.ROW.COLUMN, such as diffaug.1.3.avg"
            f"{suggest(paper, papers()) if paper not in papers() else ''}"
        )
    paper, number, of_table, heading = named
    loaded, commands = load_paper(paper), Commands(sources(), store.place, encoder)
    (name,) = table_names(loaded, number)
    if loaded.tables[name].kind != "scores":
        printed = f"harness table --paper {paper} --table {number}"
        raise UserError(f"Table {number} of {paper} has no scores; to print it: {printed}")
    reading, answers = store.read(PAPER_COLUMNS), Answers(store, lambda _: None)
    sheets = paper_tables(reading, loaded, commands, number, answers=answers)
    sheet, row, column, cell = paper_cell(sheets, f"{paper}.{number}.{of_table}", heading)
    yield f"{sheet.title}\n{row.names[0]}, {column}"
    if cell.published_text:
        yield f"published: {cell.published_text}"
    if cell.ours is None:
        fill = commands.table("sweep", paper, number)
        yield f"{row.whose}: {_missing(row, cell, commands, fill)}"
        return
    if not cell.alone:
        why = f"not compared: {cell.why_not[1]}" if cell.why_not else "not compared"
        verdict = ""
        if cell.agrees is not None:
            side = "inside" if cell.agrees else "outside"
            verdict = f" ({side} the 95 % prediction interval of the seeds)"
        yield f"difference: {cell.difference_text or why}{verdict}"
    yield from _score(cell.ours, cell.decimals, store, row.whose)


def paper_cell(tables: Iterable[Table], start: str, metric: str) -> tuple[Table, Row, str, Cell]:
    """The cell of a published table, with its table, its row and the heading of its column.

    start: the address of the row. Raises UserError where there is no such row or column.
    """
    rows = {row.address: (table, row) for table in tables for row in table.rows}
    if start not in rows:
        raise UserError(f'there is no row "{start}"{suggest(start, rows)}')
    table, row = rows[start]
    name = _named_as_typed(metric, {name: name for name in table.metrics})
    if name is None:
        names = [address_name(name) for name in table.metrics]
        raise UserError(f'row {start} has no column "{metric}"{suggest(metric, names)}')
    return table, row, name, row.cells[list(table.metrics).index(name)]


def _named_as_typed(typed: str, names: Mapping[str, str]) -> str | None:
    """The name that is meant: written as it is, or as its heading, in letters of any size.

    What is alike but for signs between letters counts where nothing else is nearer: `STS-B` for
    `stsb`, and never 10 for 1.0.
    """
    for reading in (str, str.lower, address_name, _plain):
        for found in (
            [name for name in names if reading(name) == reading(typed)],
            [name for name, heading in names.items() if reading(heading) == reading(typed)],
        ):
            if found and (len(found) == 1 or reading is not _plain):
                return found[0]
    return None


def _plain(text: str) -> str:
    return re.sub(r"[\W_]", "", text.lower())


def _missing(row: Row, cell: Cell, commands: Commands, fill: str) -> str:
    """Why there is no score, and the command that makes it. fill: that of the table."""
    if row.whose == "ours":
        why = f"no trial of the store fills it; to fill it: {fill}"
        return why if cell.expected else "the number is only quoted"
    if cell.wanted is None or cell.metric is None:
        return "the checkpoint was not released for this column"
    evaluate = commands.evaluation(cell.wanted, cell.metric.suite)
    return f"not evaluated yet; to evaluate it: {evaluate}"


def _score(cell: Score, decimals: int, store: Store, whose: str = "ours") -> Iterator[str]:
    """The mean, each trial with its score, and the commands of the first one."""
    std = "" if cell.std is None else "mean±sample std of "
    trials = counted(cell.n, "trial")
    yield f"{whose}: {score_text(cell, decimals)} ({std}{trials})"
    if not cell.trials:
        yield "asked of the model with the best dev score whose weights are kept"
        return

    if cell.uncertainty:
        low, high = cell.uncertainty.low, cell.uncertainty.high
        interval = f"{low:.{decimals}f} to {high:.{decimals}f}"
        yield f"95 % interval over the items: {interval}"
    subsets = len({trial.draw[0] for trial in cell.trials}) > 1
    for trial, value in sorted(
        zip(cell.trials, cell.values, strict=True), key=lambda pair: pair[0].draw
    ):
        subset = f"  subset {trial.draw[0]}" if subsets else ""
        yield f"  {trial.key[:10]}{subset}  seed {trial.draw[1]}  {value:.4f}"
    first = min(cell.trials, key=lambda trial: trial.draw)
    others = "" if cell.n == 1 else " (the first; the others differ in the seed"
    others += " and the subset)" if others and subsets else ")" if others else ""
    yield f"again{others}: {' && '.join(_commands(first.key, cell.suite, store))}"


def _commands(key: str, suite: SuiteOfData | None, store: Store) -> list[str]:
    """The commands that run a trial again, and that measure it with the suite of a score.

    A model that was never a trial is only measured.
    """
    record = store.get(key)
    keys = store.read((), {"evaluates": [key]}).table["key"].to_pylist()  # mostly none
    evaluations = store.read(WITHOUT_LARGE, {"key": keys}).records()
    measured = [each for each in evaluations if suite in (None, _suite_of(each))]
    if record is None:
        return [again(each, store.place) for each in measured[:1]]
    own = suite in (None, _suite_of(record)) or not measured
    return [again(each, store.place) for each in ([record] if own else [record, *measured[:1]])]


def _suite_of(record: Record) -> SuiteOfData:
    return suite_of_data(str(record.suite), record.suite_card)
