"""`harness report`: writes the results of a store as a folder that a browser shows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.figure import check_drawing, searches_of_sweep
from harness.cli.output import echo
from harness.cli.progress import working
from harness.cli.run_again import commands_of_store
from harness.cli.targets import shipped_spaces, space_name
from harness.errors import UserError
from harness.inputs import is_file
from harness.report.published.reported import load_paper

if TYPE_CHECKING:
    from harness.report.figures.report_figure import ReportFigure
    from harness.report.page.gaps import Gap
    from harness.report.page.report_page import ReportPage
    from harness.report.published.commands import Commands
    from harness.report.sheets.sheet import Sheet
    from harness.trials.reading import Reading
    from harness.trials.store import Store


def report(
    out: Annotated[Path, typer.Option(help="The folder of the report.")],
    paper: Annotated[
        str | None,
        typer.Option(
            help="Show the tables of this paper: clsr, d2cse, dcpcse, diffaug or diffcse."
        ),
    ] = None,
    encoder: options.OursOnOption = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            help="Show only this sweep: the name or file of its search space, or the identifier of "
            "a search of the store."
        ),
    ] = None,
    store: options.StoreOption = None,
) -> None:
    """Write a report: tables, figures, cost, failures, environment, and what is missing.

    The folder opens from disk and from any web server, and asks for nothing outside of it.

    Example: harness report --paper diffaug --out report
    """
    check_drawing("report")

    if paper and sweep:
        raise UserError("--paper and --sweep are two reports; leave one of them out")
    options.check_ours_on(encoder, paper)
    found = options.opened(store)
    with working(f"writing a report of the store {found.place} into {out}") as work:
        from harness.report.page.writing import write_report

        page = _page(paper, encoder, sweep, found)
        with options.writing(out, "--out"):
            start = write_report(page, out, work)
    echo(f"{start}: open it in a browser")


def _page(
    paper: str | None, encoder: str | None, sweep: str | None, store: "Store"
) -> "ReportPage":
    """The content of a report. Raises UserError for an unknown paper and an unknown sweep."""
    from harness.plugin.registry import names
    from harness.report.figures.sweep_figures import sweep_figures
    from harness.report.figures.sweep_trials import sweep_searches
    from harness.report.page.gaps import failed_trials
    from harness.report.page.report_page import ReportPage
    from harness.report.page.stored_trials import (
        REPORT_COLUMNS,
        STORED_COLUMNS,
        StoredTrials,
        keys_of_searches,
        stored_records,
    )
    from harness.report.page.sweep_curves import figured, with_histories
    from harness.report.published.commands import Commands

    reading = store.read(REPORT_COLUMNS)
    searches = sweep_searches(reading.table.select(STORED_COLUMNS))
    keys = None
    if sweep:
        searches = searches_of_sweep(sweep, searches, store.place)
        keys = keys_of_searches(reading.table, {search.id for search in searches})
    command = commands_of_store(store.place)
    trials = StoredTrials(stored_records(reading.table, keys), command)
    drawn, others = figured(searches)
    figures, notes = sweep_figures(with_histories(drawn, store), space_name(sweep or "store"))
    own, lacking = _paper_figures(paper, encoder, store) if paper else ([], [])
    commands = Commands(names(), store.place)
    if paper:
        sheets, gaps = _of_paper(paper, encoder, reading, commands)
    else:
        sheets, gaps = _of_store(reading, commands, keys)
    if sweep:
        gaps = [*gaps, *_of_space(sweep, commands)]
    return ReportPage(
        title=_title(paper, encoder, sweep),
        store=store.place,
        trials=trials,
        sheets=sheets,
        figures=[*own, *figures],
        missing=[*gaps, *failed_trials(trials.records, command)],
        notes=[*lacking, *others, *(notes if searches else [])],
    )


def _title(paper: str | None, encoder: str | None, sweep: str | None) -> str:
    if paper:
        ours = f"ours on {encoder}" if encoder else "ours"
        return f"{load_paper(paper).title}: the published tables and {ours}"
    return f"Sweep {space_name(sweep)}" if sweep else "Results"


def _of_paper(
    paper: str, encoder: str | None, reading: "Reading", commands: "Commands"
) -> "tuple[list[Sheet], list[Gap]]":
    """The tables of a paper, and what the store lacks of them."""
    from harness.report.page.gaps import paper_gaps
    from harness.report.papers.paper_tables import paper_sheets
    from harness.report.published.comparison import Comparer

    gaps = paper_gaps(load_paper(paper), Comparer(reading.table, encoder), commands)
    return paper_sheets(reading, paper, commands, encoder=encoder), list(gaps)


def _paper_figures(
    paper: str, encoder: str | None, store: "Store"
) -> "tuple[list[ReportFigure], list[str]]":
    """The figures of a paper that the records are enough for, and what the store lacks of them."""
    from harness.report.figures.paper_figures import STORE_FIGURES, store_figure

    own = [name for name in STORE_FIGURES if name.startswith(f"{paper}-")]
    found = [store_figure(name, store, encoder) for name in own]
    figures = [figure for made, _ in found for figure in made if figure.table.num_rows]
    return figures, [note for _, notes in found for note in notes]


def _of_store(
    reading: "Reading", commands: "Commands", keys: set[str] | None
) -> "tuple[list[Sheet], list[Gap]]":
    """The tables of a store, and the tests that its trials lack. `keys`: only of these trials."""
    from harness.report.measured.groups import comparable_groups
    from harness.report.page.gaps import store_gaps
    from harness.report.stores.store_tables import store_sheets

    groups = comparable_groups(reading.table)
    shown = [each for each in groups if keys is None or not keys.isdisjoint(each.keys)]
    return store_sheets(reading, commands.store, keys=keys), list(store_gaps(shown, commands))


def _of_space(sweep: str, commands: "Commands") -> "list[Gap]":
    """The command that runs what a search space still lacks; a search alone does not name one."""
    from harness.report.page.gaps import Gap

    if not is_file(Path(sweep)) and sweep not in shipped_spaces():
        return []
    what = f"Trials of {sweep} that the store has not; `harness plan {sweep}` counts them"
    return [Gap(what, commands.space(sweep))]
