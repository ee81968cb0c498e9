"""`harness figure`: draws the figures of a sweep or of a paper from the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli import options
from harness.cli.drawing import check_drawing, drawn_models, written
from harness.cli.output import echo
from harness.errors import UserError, suggest

if TYPE_CHECKING:
    from harness.report.figures.report_figure import ReportFigure
    from harness.report.figures.sweep_trials import SweepSearch
    from harness.steps import Steps
    from harness.trials.store import Store


def figure(
    sweep: Annotated[
        str | None,
        typer.Option(
            help="Draw a sweep: the name or file of its search space, or the identifier of a "
            "search of the store."
        ),
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(help="Draw a figure of this paper: d2cse, dcpcse, diffaug or diffcse."),
    ] = None,
    number: Annotated[
        int | None, typer.Option("--figure", min=1, help="With --paper: the number of the figure.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="With --paper: an encoder instead of that of the paper.")
    ] = None,
    store: options.StoreOption = None,
    output: Annotated[Path, typer.Option(help="The folder for the figures.")] = Path("figures"),
    format: Annotated[
        Literal["png", "svg", "pdf"], typer.Option(help="The format of the files.")
    ] = "png",
    bare: Annotated[
        bool,
        typer.Option("--bare", help="Leave out titles and captions, for print; they are printed."),
    ] = False,
) -> None:
    """Draw a sweep, or a figure of a paper beside what the paper says, from what the store has.

    Example: harness figure --paper diffaug --figure 4 --format pdf
    """
    check_drawing("figure")
    if (sweep is None) == (paper is None):
        raise UserError("name what is drawn: --sweep S, or --paper P --figure N")
    if paper is None:
        if number is not None or encoder is not None:
            raise UserError("--figure and --encoder belong to a paper: --paper P --figure N")
    elif number is None:
        raise UserError(f"--paper {paper} needs the number of a figure: --figure N")
    from harness.cli.progress import working

    found = options.opened(store)
    what = sweep if paper is None else f"figure {number} of {paper}"
    with working(f"drawing {what} from the store {found.place}") as work:
        if paper is None or number is None:
            made, notes = _of_sweep(str(sweep), found)
        else:
            made, notes = _of_paper(paper, number, encoder, found, work)
        if made:
            with options.writing(output, "--output"):
                output.mkdir(parents=True, exist_ok=True)
        paths = written(made, output, format, work, bare=bare)
    for path, each in zip(paths, made, strict=True):
        echo(f"{path}: {each.title}. {each.caption}" if bare else str(path))
    for note in notes:
        echo(note)


def _of_paper(
    paper: str, number: int, encoder: str | None, found: "Store", steps: "Steps"
) -> "tuple[list[ReportFigure], list[str]]":
    """A figure of a paper, and what the store lacks of it."""
    from harness.report.figures.paper_figures import STORE_FIGURES, figure_name, store_figure

    name = figure_name(paper, number)
    if name in STORE_FIGURES:
        return store_figure(name, found, encoder)
    from harness.plugin.registry import names
    from harness.report.figures.paper_models import chosen_trials, model_figures
    from harness.report.measured.quantities import PAPER_COLUMNS
    from harness.report.published.commands import Commands
    from harness.report.published.comparison import Comparer

    comparer = Comparer(found.read(PAPER_COLUMNS).table, encoder)
    keys, notes = chosen_trials(name, comparer, Commands(names(), found.place))
    if not keys:
        return [], notes
    from harness.shared_cache import check_caches
    from harness.trials.lookup import named

    check_caches()
    resolved = [named(key, found, pooling=None, method=None) for key in keys.values()]
    models, pairs = drawn_models(resolved, found, steps)
    return model_figures(name, models, pairs), notes


def _of_sweep(sweep: str, found: "Store") -> "tuple[list[ReportFigure], list[str]]":
    """The figures of a sweep. Raises UserError when the store has none of its trials."""
    from harness.cli.targets import space_name
    from harness.report.figures.sweep_figures import sweep_figures
    from harness.report.figures.sweep_trials import FIGURE_COLUMNS, sweep_searches

    searches = sweep_searches(found.read(FIGURE_COLUMNS).table)
    return sweep_figures(searches_of_sweep(sweep, searches, found.place), space_name(sweep))


def searches_of_sweep(sweep: str, searches: "list[SweepSearch]", store: str) -> "list[SweepSearch]":
    """The searches of a sweep, among those of a store at this place.

    Raises UserError when there are none, and for a name that is no sweep.
    """
    if not searches:
        raise UserError(f"the store {store} has no trial of a sweep: run harness sweep")
    chosen = _chosen(sweep, searches)
    if not chosen:
        known = "; ".join(f"{each.id[:10]} ({each.label})" for each in searches[:5])
        raise UserError(
            f"the store {store} has no trial of {sweep}; it has these searches, which "
            f"--sweep may name: {known}"
        )
    return chosen


def _chosen(sweep: str, searches: "list[SweepSearch]") -> "list[SweepSearch]":
    """The searches whose identifier begins so, or those of the search space of this name."""
    if by_id := [each for each in searches if each.id.startswith(sweep)]:
        return by_id
    from harness.cli.targets import shipped_spaces, space_file
    from harness.inputs import is_file
    from harness.sweep.spaces.overrides import Overrides
    from harness.sweep.spaces.overrides import searches as searches_of
    from harness.sweep.spaces.space import load_space

    if not is_file(Path(sweep)) and sweep not in shipped_spaces():
        names = [*shipped_spaces(), *(each.id[:10] for each in searches)]
        raise UserError(
            f'"{sweep}" is neither a search space nor a search of the store{suggest(sweep, names)}'
        )
    wanted = {each.id for each in searches_of(*load_space(space_file(sweep)), Overrides())}
    return [each for each in searches if each.id in wanted]
