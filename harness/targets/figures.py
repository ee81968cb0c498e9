"""Figures of sweeps and of papers, and pictures of embeddings."""

from collections.abc import Sequence
from pathlib import Path

from harness.data.sts_pairs import Pairs
from harness.errors import UserError, suggest
from harness.evaluation.suites import Embeddings, suite
from harness.inputs import is_file
from harness.plugin.registry import names
from harness.report.figures.embeddings import (
    Drawn,
    densities_figure,
    gold_figure,
    model_figures,
    plane_figure,
)
from harness.report.figures.lines import table_figure
from harness.report.figures.paper_figures import (
    STORE_FIGURES,
    chosen_trials,
    figure_name,
    store_figure,
)
from harness.report.figures.specification import Figure
from harness.report.figures.sweep_figures import sweep_figures
from harness.report.figures.sweeps import FIGURE_COLUMNS, SweepSearch, sweep_searches
from harness.report.matching import Commands
from harness.report.paper import Paper
from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper, paper_label, papers
from harness.report.quantities import PAPER_COLUMNS
from harness.shared_cache import check_caches
from harness.steps import Steps, prefixed
from harness.sweeps.spaces.named_spaces import shipped_spaces, space_file, space_name
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.overrides import searches as searches_of
from harness.sweeps.spaces.space import load_space
from harness.trials.lookup import MeasuredModel, named
from harness.trials.store import Store


def paper_drawing(
    paper: str, number: int, encoder: str | None, store: Store, steps: Steps
) -> tuple[list[Figure], list[str]]:
    """A figure of a paper, and what the store lacks of it."""

    if paper not in papers():
        return own_figure(load_paper(paper), f"figure{number}", encoder, store)
    name = figure_name(paper, number)
    if name in STORE_FIGURES:
        return store_figure(name, store, encoder)

    comparer = Comparer(store.read(PAPER_COLUMNS).table, encoder)
    keys, notes = chosen_trials(name, comparer, Commands(names(), store.place))
    if not keys:
        return [], notes

    check_caches()
    resolved = [named(key, store, pooling=None, method=None) for key in keys.values()]
    pairs = sts_pairs()
    models = _drawn_models([resolve() for resolve in resolved], pairs, store, steps)
    return model_figures(name, models, pairs), notes


def own_figure(
    paper: Paper, name: str, encoder: str | None, store: Store
) -> tuple[list[Figure], list[str]]:
    """A figure of a paper of one's own, and what the store lacks of it.

    Raises UserError where there is none.
    """
    figures = paper.figures
    if name not in figures:
        here = f"it has {', '.join(figures)}" if figures else "`figures` of its file names them"
        raise UserError(f"{paper.paper} has no {name}; {here}")
    figure = figures[name]
    comparer = Comparer(store.read(PAPER_COLUMNS).table, encoder, plugins=paper.plugins)
    compared = comparer.table(paper, figure.table)
    command = Commands(names(), store.place).table(paper.paper, compared.number, encoder)
    other = f"-{encoder.replace('/', '-')}" if encoder else ""
    return table_figure(f"{paper_label(paper.paper)}-{name}{other}", figure, compared, command)


def sweep_drawing(sweep: str, store: Store) -> tuple[list[Figure], list[str]]:
    """The figures of a sweep. Raises UserError when the store has none of its trials."""

    searches = sweep_searches(store.read(FIGURE_COLUMNS).table)
    return sweep_figures(searches_of_sweep(sweep, searches, store.place), space_name(sweep))


def searches_of_sweep(sweep: str, searches: list[SweepSearch], store: str) -> list[SweepSearch]:
    """The searches of a sweep, among those of a store at this place.

    Raises UserError when there are none, and for a name that is no sweep.
    """
    if not searches:
        raise UserError(f"the store {store} has no trial of a sweep: run harness sweep")
    chosen = _chosen(sweep, searches)
    if not chosen:
        listed = "; ".join(f"{each.id[:10]} ({each.label})" for each in searches[:5])
        raise UserError(
            f"the store {store} has no trial of {sweep}; it has these searches, which "
            f"--sweep may name: {listed}"
        )
    return chosen


def _chosen(sweep: str, searches: list[SweepSearch]) -> list[SweepSearch]:
    """The searches whose identifier begins so, or those of the search space of this name."""
    if by_id := [each for each in searches if each.id.startswith(sweep)]:
        return by_id

    if not is_file(Path(sweep)) and sweep not in shipped_spaces():
        names = [*shipped_spaces(), *(each.id[:10] for each in searches)]
        raise UserError(
            f'"{sweep}" is neither a search space nor a search of the store{suggest(sweep, names)}'
        )
    wanted = {each.id for each in searches_of(*load_space(space_file(sweep)), Overrides())}
    return [each for each in searches if each.id in wanted]


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
