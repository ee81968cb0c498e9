"""A paper of one's own: its file has the shape of results/reported, and says what its rows run."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
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
from harness.report.matching import ANY, Wanted, wanted_for
from harness.report.paper import ColumnRun, Paper, ReportedRun
from harness.report.published import Loader, printed_text
from harness.report.quantities import TEXTS, columns_of, measure_of


def own_paper(name: str, file: Path) -> Paper:
    """The paper of a file. name: the path of its folder or of the file, as the user wrote it.

    Paths of plugins become absolute. Raises UserError with file and line for whatever is wrong,
    also in the systems, methods, hyperparameters, columns and metrics that the file names.
    """
    document = read_document(file)
    if "paper" in document.content:
        raise document.error(("paper",), "the path of the file names the paper; leave this out")
    try:
        content = yaml.load(read_text(file), Loader=Loader)
    except yaml.YAMLError as error:
        raise UserError(f"{file}: not valid YAML: {error}") from None
    paper = replace(document, content={**content, "paper": name}).parse(Paper)
    paper = _with_paths(paper, document)
    if not paper.tables:
        raise document.error(("tables",), "a paper has at least one table, called table1")
    checks = (_check_systems, _check_facts, _check_released, _check_tables, _check_figures)
    for check in checks:
        check(paper, document)
    return paper


@contextmanager
def _at(document: Document, *where: str | int) -> Iterator[None]:
    """In the block, an error says this place of the file."""
    try:
        yield
    except UserError as error:
        raise document.error(where, str(error)) from None


def _check_name(name: str, valid: Any, kind: str) -> None:
    if name not in valid:
        raise UserError(f'there is no {kind} "{name}"{suggest(name, valid)}')


def _with_paths(paper: Paper, document: Document) -> Paper:
    """The paper with an absolute path in the place of each path of a plugin."""

    def absolute(run: ReportedRun | None, *where: str) -> ReportedRun | None:
        if run is None:
            return None
        location: Location = (*where, "method")
        locator, name = located(run.method, document, location), plain_name(run.method)
        shipped = registry.source(name)
        if is_path(run.method) and shipped is not None and str(shipped.resolve()) != locator:
            raise document.error(
                location,
                f"harness has a method {name}, and a plugin needs another name; rename its file",
            )
        return run.model_copy(update={"method": locator})

    systems = {name: absolute(run, "systems", name) for name, run in paper.systems.items()}
    facts = {}
    for table, about in paper.facts.items():
        columns = {
            name: column.model_copy(
                update={"run": absolute(column.run, "facts", table, "columns", name)}
            )
            for name, column in about.columns.items()
        }
        facts[table] = about.model_copy(update={"columns": columns})
    return paper.model_copy(update={"systems": systems, "facts": facts})


def _check_systems(paper: Paper, document: Document) -> None:
    """Raise UserError for values that only a space takes, and for a variant that is like no other.

    Trials of a variant would fill the row without one, too, when they are better on dev.
    """
    runs = {name: run for name, run in paper.systems.items() if run}
    for name, run in runs.items():
        for part, values in (("configuration", run.configuration), ("defaults", run.defaults)):
            for key, value in values.items():
                if isinstance(value, Mapping) and "trained_by" in value:
                    raise document.error(
                        ("systems", name, part, key),
                        "trained_by is for search spaces; name the trained encoder here, as "
                        "ENCODER@KEY with the key of its trial",
                    )
        for variant, values in run.variants.items():
            for key in (key for key in values if key not in {**run.configuration, **run.defaults}):
                raise document.error(
                    ("systems", name, "variants", variant, key),
                    f"the rows of {name} without a variant need a {key}, too; give it under "
                    f"configuration, or, where it is the default of the method, under defaults",
                )


def _check_facts(paper: Paper, document: Document) -> None:
    """Raise UserError where the facts are of a table, a column or a system that is not there."""

    def check(names: Iterable[str], valid: Container[str], kind: str, *where: str) -> None:
        for name in names:
            with _at(document, "facts", *where, name):
                _check_name(name, valid, kind)

    systems = paper.runs.systems
    for name, facts in paper.facts.items():
        check([name], paper.tables, "table")
        headings = [*map(str, paper.tables[name].columns)]
        for heading, column in facts.columns.items():
            check([heading], headings, "column", name, "columns")
            check(column.systems, systems, "system", name, "columns", heading, "systems")
        check(facts.systems, systems, "system", name, "systems")
        check(facts.unlike, systems, "system", name, "unlike")


def _check_released(paper: Paper, document: Document) -> None:
    """Raise UserError for a checkpoint that stands beside no row of the paper."""
    rows = [row for table in paper.tables.values() for row in table.rows]
    for index, one in enumerate(paper.released):
        with _at(document, "released", index, "system"):
            _check_name(one.system, paper.runs.systems, "system")
        if not any(map(one.is_of, rows)):
            words = f"{one.system} {one.setting} {one.encoder}"
            problem = f"no row of the paper has {words}, beside which it stands"
            raise document.error(("released", index), problem)


def _check_figures(paper: Paper, document: Document) -> None:
    """Raise UserError for a figure whose table is not there, or has other columns."""
    for name, figure in paper.figures.items():
        with _at(document, "figures", name):
            if not re.fullmatch(r"figure[1-9]\d{0,3}", name):
                raise UserError("figures have the names figure1, figure2, ...")
        with _at(document, "figures", name, "table"):
            _check_name(figure.table, paper.tables, "table")
        with _at(document, "figures", name):
            columns = columns_of(paper, figure.table)
            for column in columns:
                value = column.run.configuration.get(figure.axis)
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise UserError(
                        f'facts.{figure.table}.columns gives "{column.heading}" no {figure.axis} '
                        f"that is a number; every column of the table of a figure has one"
                    )
            measures = {column.measure for column in columns}
            if len(measures) > 1 or not isinstance(columns[0].measure, Metric):
                raise UserError("all columns of the table of a figure show one score")


def _check_tables(paper: Paper, document: Document) -> None:
    """Raise UserError for what a table names and nobody has."""
    for name, table in paper.tables.items():
        with _at(document, "tables", name):
            if not re.fullmatch(r"table[1-9]\d{0,3}", name):
                raise UserError("tables have the names table1, table2, ...")
            if not (table.columns and table.rows):
                raise UserError("a table has columns, and groups with rows")
        runs = paper.runs
        columns = [runs.column(f"{paper.paper}.{name}", str(one)) for one in table.columns]
        for index, column in enumerate(columns):
            with _at(document, "tables", name, "columns", index):
                _check_column(paper, name, index, column)
        checked: set[Wanted] = set()
        for at, group in enumerate(table.groups):
            for number, row in enumerate(group.rows):
                with _at(document, "tables", name, "groups", at, "rows", number):
                    for index, column in enumerate(columns):
                        value, measure = row.value(index), measure_of(table, index, column)
                        # A text in the place of a score would have no difference from ours.
                        if isinstance(value, str | bool) and measure not in TEXTS:
                            raise UserError(
                                "a number is expected in values, or null, and not "
                                f'"{printed_text(value)}"'
                            )
                        _check_run(wanted_for(runs, name, row, column), checked)


def _check_column(paper: Paper, name: str, index: int, column: ColumnRun) -> None:
    """Refuse a heading that names no score; in a paper of the five it would be Avg. of STS."""
    table = paper.tables[name]
    measure_of(table, index, column)
    heading = str(table.columns[index])
    headings = [shown for card in CARDS.values() for shown in card.headings.values()]
    if table.kind == "scores" and column.metric is None and heading not in headings:
        raise UserError(
            f'no suite has a score with the heading "{heading}", and facts.{name}.columns names '
            f"no metric for it{suggest(heading, headings)}"
        )


def _check_run(wanted: Wanted | None, checked: set[Wanted]) -> None:
    """Refuse a method or a hyperparameter that is not there."""
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
