"""The content of a report: tables, figures, trials, and what is missing."""

from pathlib import Path

from harness.inputs import is_file
from harness.plugin.registry import names
from harness.report.figures.paper_figures import STORE_FIGURES, store_figure
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.sweep_figures import sweep_figures
from harness.report.figures.sweep_trials import sweep_searches
from harness.report.measured.groups import comparable_groups
from harness.report.page.gaps import Gap, failed_trials, paper_gaps, store_gaps
from harness.report.page.report_page import ReportPage
from harness.report.page.stored_trials import (
    REPORT_COLUMNS,
    STORED_COLUMNS,
    StoredTrials,
    keys_of_searches,
    stored_records,
)
from harness.report.page.sweep_curves import figured, with_histories
from harness.report.papers.paper_tables import paper_sheets
from harness.report.published.commands import Commands
from harness.report.published.comparison import Comparer
from harness.report.published.reported import load_paper
from harness.report.sheets.sheet import Sheet
from harness.report.stores.store_tables import store_sheets
from harness.sweeps.spaces.named_spaces import shipped_spaces, space_name
from harness.targets.figures import searches_of_sweep
from harness.trials.reading import Reading
from harness.trials.run_again import commands_of_store
from harness.trials.store import Store


def page_of(paper: str | None, encoder: str | None, sweep: str | None, store: Store) -> ReportPage:
    """The content of a report. Raises UserError for an unknown paper and an unknown sweep."""

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
    paper: str, encoder: str | None, reading: Reading, commands: Commands
) -> tuple[list[Sheet], list[Gap]]:
    """The tables of a paper, and what the store lacks of them."""

    gaps = paper_gaps(load_paper(paper), Comparer(reading.table, encoder), commands)
    return paper_sheets(reading, paper, commands, encoder=encoder), list(gaps)


def _paper_figures(
    paper: str, encoder: str | None, store: Store
) -> tuple[list[ReportFigure], list[str]]:
    """The figures of a paper that the records are enough for, and what the store lacks of them."""

    own = [name for name in STORE_FIGURES if name.startswith(f"{paper}-")]
    drawn = [store_figure(name, store, encoder) for name in own]
    figures = [figure for made, _ in drawn for figure in made if figure.table.num_rows]
    return figures, [note for _, notes in drawn for note in notes]


def _of_store(
    reading: Reading, commands: Commands, keys: set[str] | None
) -> tuple[list[Sheet], list[Gap]]:
    """The tables of a store, and the tests that its trials lack. `keys`: only of these trials."""

    groups = comparable_groups(reading.table)
    shown = [each for each in groups if keys is None or not keys.isdisjoint(each.keys)]
    return store_sheets(reading, commands.store, keys=keys), list(store_gaps(shown, commands))


def _of_space(sweep: str, commands: Commands) -> list[Gap]:
    """The command that runs what a search space still lacks; a search alone does not name one."""

    if not is_file(Path(sweep)) and sweep not in shipped_spaces():
        return []
    what = f"Trials of {sweep} that the store has not; `harness plan {sweep}` counts them"
    return [Gap(what, commands.space(sweep))]
