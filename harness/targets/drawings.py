"""Figures of sweeps and of papers, pictures of embeddings, and the page of a report."""

from collections.abc import Sequence
from pathlib import Path

from harness.data.sts_pairs import Pairs
from harness.errors import UserError, suggest
from harness.evaluation.suites import Embeddings, suite
from harness.inputs import is_file
from harness.plugin.registry import sources
from harness.report.coverage import Gap, failed_trials, paper_gaps, store_gaps
from harness.report.figures.embeddings import (
    Drawn,
    densities_figure,
    gold_figure,
    model_figures,
    plane_figure,
)
from harness.report.figures.paper_figures import (
    STORE_FIGURES,
    DrawnAndLacking,
    chosen_trials,
    figure_name,
    store_figure,
    table_figure,
)
from harness.report.figures.specification import Figure
from harness.report.figures.sweep_figures import sweep_figures
from harness.report.figures.sweeps import (
    FIGURE_COLUMNS,
    SweepSearch,
    figured,
    sweep_searches,
    with_histories,
)
from harness.report.groups import comparable_groups
from harness.report.matching import Commands, command
from harness.report.page.content import (
    REPORT_COLUMNS,
    StoredTrials,
    keys_of_searches,
    stored_records,
)
from harness.report.page.writing import ReportPage
from harness.report.paper import Paper
from harness.report.paper_cells import Comparer
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper, paper_label, papers
from harness.report.quantities import PAPER_COLUMNS
from harness.report.store_tables import store_tables
from harness.shared_cache import check_caches
from harness.steps import Steps, prefixed
from harness.sweeps.spaces.overrides import Overrides, shipped_spaces, space_file, space_name
from harness.sweeps.spaces.searches import searches as searches_of
from harness.sweeps.spaces.space import load_space
from harness.trials.lookup import MeasuredModel, named
from harness.trials.run_again import commands_of_store
from harness.trials.schema import WITHOUT_LARGE
from harness.trials.store import Store


def paper_drawing(
    paper: str, number: int, encoder: str | None, store: Store, steps: Steps
) -> DrawnAndLacking:
    """A figure of a paper, and what the store lacks of it."""
    if paper not in papers():
        return own_figure(load_paper(paper), f"figure{number}", encoder, store)
    name = figure_name(paper, number)
    if name in STORE_FIGURES:
        return store_figure(name, store, encoder)
    comparer = Comparer(store.read(PAPER_COLUMNS).table, encoder)
    keys, notes = chosen_trials(name, comparer, Commands(sources(), store.place))
    if not keys:
        return [], notes
    check_caches()
    resolved = [named(key, store, pooling=None, method=None) for key in keys.values()]
    pairs = sts_pairs()
    models = _drawn_models([resolve() for resolve in resolved], pairs, store, steps)
    return model_figures(name, models, pairs), notes


def own_figure(paper: Paper, name: str, encoder: str | None, store: Store) -> DrawnAndLacking:
    """A figure of a paper of one's own, and what the store lacks of it.

    Raises UserError where there is none.
    """
    if name not in paper.figures:
        there = f"it has {', '.join(paper.figures)}"
        here = there if paper.figures else "`figures` of its file names them"
        raise UserError(f"{paper.paper} has no {name}; {here}")
    figure = paper.figures[name]
    comparer = Comparer(store.read(PAPER_COLUMNS).table, encoder)
    compared = comparer.table(paper, figure.table)
    commands = Commands(sources(), store.place, encoder)
    fill = commands.table("sweep", paper.paper, compared.number)
    other = f"-{encoder.replace('/', '-')}" if encoder else ""
    return table_figure(f"{paper_label(paper.paper)}-{name}{other}", figure, compared, fill)


def sweep_drawing(sweep: str, store: Store) -> DrawnAndLacking:
    """The figures of a sweep. Raises UserError when the store has none of its trials."""
    searches = sweep_searches(store.read(FIGURE_COLUMNS).table)
    return sweep_figures(_searches_of_sweep(sweep, searches, store.place), space_name(sweep))


def _searches_of_sweep(sweep: str, searches: list[SweepSearch], store: str) -> list[SweepSearch]:
    """The searches of a sweep, among those of a store at this place.

    sweep: the beginning of the identifier of a search, or a search space. Raises UserError when
    there are none, and for a name that is no sweep.
    """
    if not searches:
        raise UserError(f"the store {store} has no trial of a sweep: run harness sweep")
    if by_id := [search for search in searches if search.id.startswith(sweep)]:
        return by_id
    if not _is_space(sweep):
        valid = [*shipped_spaces(), *(search.id[:10] for search in searches)]
        raise UserError(
            f'"{sweep}" is neither a search space nor a search of the store{suggest(sweep, valid)}'
        )
    wanted = {search.id for search in searches_of(*load_space(space_file(sweep)), Overrides())}
    if chosen := [search for search in searches if search.id in wanted]:
        return chosen
    listed = "; ".join(f"{search.id[:10]} ({search.label})" for search in searches[:5])
    raise UserError(
        f"the store {store} has no trial of {sweep}; it has these searches, which "
        f"--sweep may name: {listed}"
    )


def _is_space(sweep: str) -> bool:
    return is_file(Path(sweep)) or sweep in shipped_spaces()


def sts_pairs() -> Pairs:
    """The pairs of STS-B test. Raises UserError where they are not here."""
    pairs: Pairs = suite("geometry").load("geometry")
    return pairs


def pictures(
    models: Sequence[MeasuredModel], pairs: Pairs, store: Store, steps: Steps
) -> list[Figure]:
    """The cosines by gold score, their densities, and a projection on a plane.

    pairs: those of `sts_pairs`. steps: hears what is being done.
    """
    drawn = _drawn_models(models, pairs, store, steps)
    return [make(drawn, pairs) for make in (gold_figure, densities_figure, plane_figure)]


def _drawn_models(
    models: Sequence[MeasuredModel], pairs: Pairs, store: Store, steps: Steps
) -> list[Drawn]:
    """The models with their vectors of the pairs."""
    steps("loading torch and the models")
    from harness.trials.evaluate import Measurement

    drawn = []
    for number, model in enumerate(models, 1):
        own = prefixed(f"model {number} of {len(models)}", steps)
        vectors = Embeddings(Measurement(model, store, steps=own).embed, pairs.texts)
        drawn.append(Drawn(model.label, vectors(pairs.first), vectors(pairs.second)))
    return drawn


def page_of(paper: str | None, encoder: str | None, sweep: str | None, store: Store) -> ReportPage:
    """The content of a report. Raises UserError for an unknown paper and an unknown sweep."""
    reading = store.read(REPORT_COLUMNS)
    searches = sweep_searches(reading.table.select(WITHOUT_LARGE))
    keys = None
    if sweep:
        searches = _searches_of_sweep(sweep, searches, store.place)
        keys = keys_of_searches(reading.table, {search.id for search in searches})
    again, commands = commands_of_store(store.place), Commands(sources(), store.place, encoder)
    trials = StoredTrials(stored_records(reading.table, keys), again)
    drawn, others = figured(searches)
    figures, notes = sweep_figures(with_histories(drawn, store), space_name(sweep or "store"))
    notes = [*others, *(notes if searches else [])]
    title, gaps = f"Sweep {space_name(sweep)}" if sweep else "Results", list[Gap]()
    if paper:
        loaded, ours = load_paper(paper), f"ours on {encoder}" if encoder else "ours"
        title = f"{loaded.title}: the published tables and {ours}"
        own, lacking = _paper_figures(loaded, encoder, store)
        figures, notes = [*own, *figures], [*lacking, *notes]
        sheets = paper_tables(reading, loaded, commands)
        gaps += paper_gaps(loaded, Comparer(reading.table, encoder), commands)
    else:
        groups = comparable_groups(reading.table)
        shown = [group for group in groups if keys is None or not keys.isdisjoint(group.keys)]
        sheets = store_tables(reading, store.place, keys=keys)
        gaps += store_gaps(shown, commands)
    if sweep and _is_space(sweep):  # not a search alone
        lacks = f"Trials of {sweep} that the store has not; `harness plan {sweep}` counts them"
        gaps.append(Gap(lacks, command(store.place, "sweep", sweep)))
    return ReportPage(
        title=title,
        store=store.place,
        trials=trials,
        tables=sheets,
        figures=figures,
        missing=[*gaps, *failed_trials(trials.records, again)],
        notes=notes,
    )


def _paper_figures(paper: Paper, encoder: str | None, store: Store) -> DrawnAndLacking:
    """The figures of a paper that the records are enough for, and what the store lacks of them."""
    shipped = [name for name in STORE_FIGURES if name.startswith(f"{paper.paper}-")]
    drawn = [
        *(store_figure(name, store, encoder) for name in shipped),
        *(own_figure(paper, name, encoder, store) for name in paper.figures),
    ]
    figures = [figure for made, _ in drawn for figure in made]
    return figures, [note for _, notes in drawn for note in notes]
