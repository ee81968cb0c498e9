"""The content of a report: tables, figures, trials, and what is missing."""

from pathlib import Path

from harness.inputs import is_file
from harness.plugin.registry import names
from harness.report.coverage import Gap, failed_trials, paper_gaps, store_gaps
from harness.report.figures.paper_figures import STORE_FIGURES, store_figure
from harness.report.figures.specification import Figure
from harness.report.figures.sweep_figures import sweep_figures
from harness.report.figures.sweeps import figured, sweep_searches, with_histories
from harness.report.groups import comparable_groups
from harness.report.matching import Commands, command
from harness.report.page.stored_trials import (
    REPORT_COLUMNS,
    STORED_COLUMNS,
    StoredTrials,
    keys_of_searches,
    stored_records,
)
from harness.report.page.writing import ReportPage
from harness.report.page.writing import write_report as write_report
from harness.report.paper_cells import Comparer
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.store_tables import store_tables
from harness.sweeps.spaces.named_spaces import shipped_spaces, space_name
from harness.targets.figures import own_figure, searches_of_sweep
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
    again = commands_of_store(store.place)
    trials = StoredTrials(stored_records(reading.table, keys), again)
    drawn, others = figured(searches)
    figures, notes = sweep_figures(with_histories(drawn, store), space_name(sweep or "store"))
    own, lacking = _paper_figures(paper, encoder, store) if paper else ([], [])
    commands = Commands(names(), store.place)
    gaps: list[Gap] = []
    if paper:
        sheets = paper_tables(reading, paper, commands, encoder=encoder)
        gaps += paper_gaps(load_paper(paper), Comparer(reading.table, encoder), commands)
    else:
        groups = comparable_groups(reading.table)
        shown = [each for each in groups if keys is None or not keys.isdisjoint(each.keys)]
        sheets = store_tables(reading, store.place, keys=keys)
        gaps += store_gaps(shown, commands)
    if sweep and (is_file(Path(sweep)) or sweep in shipped_spaces()):  # not a search alone
        what = f"Trials of {sweep} that the store has not; `harness plan {sweep}` counts them"
        gaps.append(Gap(what, command(store.place, "sweep", sweep)))
    return ReportPage(
        title=_title(paper, encoder, sweep),
        store=store.place,
        trials=trials,
        tables=sheets,
        figures=[*own, *figures],
        missing=[*gaps, *failed_trials(trials.records, again)],
        notes=[*lacking, *others, *(notes if searches else [])],
    )


def _title(paper: str | None, encoder: str | None, sweep: str | None) -> str:
    if paper:
        ours = f"ours on {encoder}" if encoder else "ours"
        return f"{load_paper(paper).title}: the published tables and {ours}"
    return f"Sweep {space_name(sweep)}" if sweep else "Results"


def _paper_figures(paper: str, encoder: str | None, store: Store) -> tuple[list[Figure], list[str]]:
    """The figures of a paper that the records are enough for, and what the store lacks of them."""

    own = load_paper(paper)
    shipped = [name for name in STORE_FIGURES if name.startswith(f"{paper}-")]
    drawn = [
        *(store_figure(name, store, encoder) for name in shipped),
        *(own_figure(own, name, encoder, store) for name in own.figures),
    ]
    figures = [figure for made, _ in drawn for figure in made]
    return figures, [note for _, notes in drawn for note in notes]
