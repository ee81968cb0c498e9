"""A paper of one's own: its file has the shape of results/reported, and says what its rows run."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from harness.document import Document, Location, read_document
from harness.errors import UserError, suggest
from harness.evaluation.catalogue import CARDS, Metric
from harness.inputs import read_text
from harness.plugin import registry
from harness.plugin.registry import is_path, located, plain_name
from harness.plugin.resolution import resolve
from harness.report.matching import ANY, Wanted, run_of, wanted_for
from harness.report.paper import ColumnRun, Paper, ReportedRun, Systems
from harness.report.published import (
    ReportedRow,
    ReportedTable,
    Value,
    content_of,
    printed_text,
)
from harness.report.quantities import TEXTS, Measure, columns_of, measure_of


def own_paper(name: str, file: Path) -> Paper:
    """The paper of a file. name: the path of its folder or of the file, as the user wrote it.

    Paths of plugins become absolute. Raises UserError with file and line for whatever is wrong,
    also in the systems, methods, hyperparameters, columns and metrics that the file names.
    """
    document = read_document(file)
    if "paper" in document.content:
        raise document.error(("paper",), "the path of the file names the paper; leave this out")
    try:
        content = content_of(read_text(file))
    except yaml.YAMLError as error:
        raise UserError(f"{file}: not valid YAML: {error}") from None
    paper = replace(document, content={**content, "paper": name}).parse(Paper)
    paper = _with_paths(paper, document)
    if not paper.tables:
        raise document.error(("tables",), "a paper has at least one table, called table1")
    _check_systems(paper, document)
    _check_facts(paper, document)
    _check_released(paper, document)
    for table_name, table in paper.tables.items():
        _check_table(paper, table_name, table, document)
    for figure_name in paper.figures:
        _check_figure(paper, figure_name, document)
    return paper


def _with_paths(paper: Paper, document: Document) -> Paper:
    """The paper with an absolute path in the place of each path of a plugin."""

    def located_run(run: ReportedRun | None, *where: str) -> ReportedRun | None:
        return run and _with_path(run, document, where)

    systems = {name: located_run(run, "systems", name) for name, run in paper.systems.items()}
    facts = {}
    for table, about in paper.facts.items():
        columns = {
            name: column.model_copy(
                update={"run": located_run(column.run, "facts", table, "columns", name)}
            )
            for name, column in about.columns.items()
        }
        facts[table] = about.model_copy(update={"columns": columns})
    return paper.model_copy(update={"systems": systems, "facts": facts})


def _with_path(run: ReportedRun, document: Document, where: Location) -> ReportedRun:
    where = (*where, "method")
    locator, name = located(run.method, document, where), plain_name(run.method)
    shipped = registry.sources().get(name)
    if is_path(run.method) and shipped is not None and str(shipped.resolve()) != locator:
        raise document.error(
            where, f"harness has a method {name}, and a plugin needs another name; rename its file"
        )
    return run.model_copy(update={"method": locator})


def _check_systems(paper: Paper, document: Document) -> None:
    """Raise UserError for values that only a space takes, and for a variant that is like no other.

    Trials of a variant would fill the row without one, too, when they are better on dev.
    """
    for name, run in paper.systems.items():
        if run is None:
            continue
        where: Location = ("systems", name)
        for part, values in (("configuration", run.configuration), ("defaults", run.defaults)):
            for key, value in values.items():
                if isinstance(value, Mapping) and "trained_by" in value:
                    raise document.error(
                        (*where, part, key),
                        "trained_by is for search spaces; name the trained encoder here, as "
                        "ENCODER@KEY with the key of its trial",
                    )
        for variant, values in run.variants.items():
            for key in values:
                if key not in run.configuration and key not in run.defaults:
                    raise document.error(
                        (*where, "variants", variant, key),
                        f"the rows of {name} without a variant need a {key}, too; give it under "
                        f"configuration, or, where it is the default of the method, under defaults",
                    )


def _check_facts(paper: Paper, document: Document) -> None:
    """Raise UserError where the facts are of a table, a column or a system that is not there."""
    systems = paper.runs.systems
    for name, facts in paper.facts.items():
        where: Location = ("facts", name)
        if name not in paper.tables:
            raise document.error(where, f'there is no table "{name}"{suggest(name, paper.tables)}')
        headings = [*map(str, paper.tables[name].columns)]
        for heading, column in facts.columns.items():
            _check_name(heading, headings, "column", document, (*where, "columns", heading))
            for system in column.systems:
                place = (*where, "columns", heading, "systems", system)
                _check_name(system, systems, "system", document, place)
        for key, names in (("systems", facts.systems), ("unlike", facts.unlike)):
            for system in names:
                _check_name(system, systems, "system", document, (*where, key, system))


def _check_released(paper: Paper, document: Document) -> None:
    """Raise UserError for a checkpoint that stands beside no row of the paper."""
    rows = [row for table in paper.tables.values() for row in table.rows]
    for index, one in enumerate(paper.released):
        where: Location = ("released", index)
        _check_name(one.system, paper.runs.systems, "system", document, (*where, "system"))
        if not any(one.is_of(row) for row in rows):
            words = " ".join(one.place)
            raise document.error(where, f"no row of the paper has {words}, beside which it stands")


def _check_figure(paper: Paper, name: str, document: Document) -> None:
    """Raise UserError for a figure whose table is not there, or has other columns."""
    where: Location = ("figures", name)
    if not re.fullmatch(r"figure[1-9]\d{0,3}", name):
        raise document.error(where, "figures have the names figure1, figure2, ...")
    figure = paper.figures[name]
    _check_name(figure.table, paper.tables, "table", document, (*where, "table"))
    columns = columns_of(paper, figure.table)
    for column in columns:
        value = column.run.configuration.get(figure.axis)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise document.error(
                where,
                f'facts.{figure.table}.columns gives "{column.heading}" no {figure.axis} that is a '
                f"number; every column of the table of a figure has one",
            )
    if len({column.measure for column in columns}) > 1 or not isinstance(
        columns[0].measure, Metric
    ):
        raise document.error(where, "all columns of the table of a figure show one score")


def _check_name(name: str, valid: Any, kind: str, document: Document, where: Location) -> None:
    if name not in valid:
        raise document.error(where, f'there is no {kind} "{name}"{suggest(name, valid)}')


def _check_table(paper: Paper, name: str, table: ReportedTable, document: Document) -> None:
    """Raise UserError for what a table names and nobody has."""
    where: Location = ("tables", name)
    if not re.fullmatch(r"table[1-9]\d{0,3}", name):
        raise document.error(where, "tables have the names table1, table2, ...")
    if not (table.columns and table.rows):
        raise document.error(where, "a table has columns, and groups with rows")
    runs, full_name = paper.runs, f"{paper.paper}.{name}"
    columns = [runs.column(full_name, str(heading)) for heading in table.columns]
    for index, column in enumerate(columns):
        with _at(document, (*where, "columns", index)):
            _check_column(name, table, index, column)
    wanted: set[Wanted] = set()
    for at, group in enumerate(table.groups):
        for number, row in enumerate(group.rows):
            place: Location = (*where, "groups", at, "rows", number)
            with _at(document, place):
                for index, column in enumerate(columns):
                    _check_value(row.value(index), measure_of(table, index, column))
                    _check_run(name, row, column, runs, wanted)


def _check_column(name: str, table: ReportedTable, index: int, column: ColumnRun) -> None:
    """Refuse a heading that names no score; in a paper of the five it would be Avg. of STS."""
    measure_of(table, index, column)
    heading = str(table.columns[index])
    headings = [shown for card in CARDS.values() for shown in card.headings.values()]
    if table.kind == "scores" and column.metric is None and heading not in headings:
        raise UserError(
            f'no suite has a score with the heading "{heading}", and facts.{name}.columns names '
            f"no metric for it{suggest(heading, headings)}"
        )


def _check_value(value: Value, measure: Measure) -> None:
    """Refuse a text in the place of a score, which would have no difference from ours."""
    if isinstance(value, str | bool) and measure not in TEXTS:
        raise UserError(f'a number is expected in values, or null, and not "{printed_text(value)}"')


def _check_run(
    table: str, row: ReportedRow, column: ColumnRun, systems: Systems, checked: set[Wanted]
) -> None:
    """Refuse a system, a variant, an encoder or a hyperparameter that is not there."""
    wanted = wanted_for(row, run_of(systems, table, row, column), column)
    if wanted is None or wanted.needs or wanted in checked:
        return
    checked.add(wanted)
    values = {name: value for name, value in wanted.configuration if value != ANY}
    values |= {"setting": wanted.setting, "encoder": wanted.encoder}
    plugin = registry.load(wanted.locator)
    resolve(plugin, values)
    for name, tried in wanted.searched:
        for value in tried:
            resolve(plugin, {**values, name: value})


@contextmanager
def _at(document: Document, where: Location) -> Iterator[None]:
    """In the block, an error says this place of the file."""
    try:
        yield
    except UserError as error:
        raise document.error(where, str(error)) from None
