"""The verbs that draw: `harness figure` what the store has, `harness picture` embeddings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli import options
from harness.cli.eval import MethodOption, PoolingOption
from harness.cli.output import echo
from harness.cli.progress import working
from harness.cli.targets import shipped_spaces, space_file, space_name
from harness.errors import UserError, extra, suggest
from harness.inputs import is_file
from harness.shared_cache import check_caches
from harness.steps import Steps, prefixed

if TYPE_CHECKING:
    from harness.data.sts_pairs import Pairs
    from harness.report.figures.embeddings import Drawn
    from harness.report.figures.report_figure import ReportFigure
    from harness.report.figures.sweep_trials import SweepSearch
    from harness.report.figures.writing import FigureFormat
    from harness.trials.lookup import MeasuredModel
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
        paths = written(made, output, format, work)
    for path in paths:
        echo(str(path))
    for note in notes:
        echo(note)


def _of_paper(
    paper: str, number: int, encoder: str | None, found: "Store", steps: Steps
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
    from harness.trials.lookup import named

    check_caches()
    resolved = [named(key, found, pooling=None, method=None) for key in keys.values()]
    models, pairs = drawn_models(resolved, found, steps)
    return model_figures(name, models, pairs), notes


def _of_sweep(sweep: str, found: "Store") -> "tuple[list[ReportFigure], list[str]]":
    """The figures of a sweep. Raises UserError when the store has none of its trials."""
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


def picture(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Trials' keys, Hub names or folders.", show_default=False
        ),
    ],
    output: Annotated[Path, typer.Option("--output", help="Folder for the pictures.")] = Path(
        "pictures"
    ),
    pooling: PoolingOption = None,
    method: MethodOption = None,
    store: options.StoreOption = None,
    format: Annotated[
        Literal["png", "svg", "pdf"], typer.Option(help="The format of the pictures.")
    ] = "png",
) -> None:
    """Draw the embeddings of STS-B test, with models side by side.

    The pictures show the cosines by gold score, their densities, and a projection on a plane.

    Example: harness picture 4f2a 77c0 --output pictures
    """
    check_drawing("picture")
    from harness.trials.lookup import named

    found = options.opened(store)
    check_caches()
    resolved = [named(name, found, pooling=pooling, method=method) for name in names]
    with working(f"drawing {', '.join(names)} into {output}") as work:
        models, pairs = drawn_models(resolved, found, work, output)
        from harness.report.figures.cosine_densities import densities_figure, gold_figure
        from harness.report.figures.embedding_plane import plane_figure

        figures = [make(models, pairs) for make in (gold_figure, densities_figure, plane_figure)]
        paths = written(figures, output, format, work)
    for path in paths:
        echo(str(path))


def check_drawing(verb: str) -> None:
    """Raises UserError when matplotlib is not installed, which draws the figures of this verb."""
    with extra("figures", f"harness {verb}"):
        import matplotlib as _matplotlib
    del _matplotlib


def drawn_models(
    models: "Sequence[Callable[[], MeasuredModel]]",
    store: "Store",
    steps: Steps,
    folder: Path | None = None,
) -> "tuple[list[Drawn], Pairs]":
    """The models with their vectors of STS-B test, and its pairs.

    models: as `harness.trials.lookup.named` gives them. steps: hears what is being done. folder:
    where the files will be; it is made before models are loaded, which takes long.
    """
    from harness.evaluation.suites import Embeddings, suite
    from harness.report.figures.embeddings import Drawn

    pairs = suite("geometry").load("geometry")
    resolved = [each() for each in models]
    if folder is not None:
        with options.writing(folder, "--output"):
            folder.mkdir(parents=True, exist_ok=True)
    steps("loading torch and the models")
    from harness.trials.evaluate import Measurement

    drawn = []
    for number, each in enumerate(resolved, 1):
        own = prefixed(f"model {number} of {len(resolved)}", steps)
        vectors = Embeddings(Measurement(each, store, steps=own).embed, pairs.texts)
        drawn.append(Drawn(each.label, vectors(pairs.first), vectors(pairs.second)))
    return drawn, pairs


def written(
    figures: "Sequence[ReportFigure]", folder: Path, format: "FigureFormat", steps: Steps
) -> list[Path]:
    """Write each figure into the folder of `--output`, which is there; the paths of the files."""
    from harness.report.figures.writing import write_figures

    paths: list[Path] = []
    with options.writing(folder, "--output"):
        for path in write_figures(figures, folder, format):
            paths.append(path)
            steps("drawing figures", len(paths), len(figures))
    return paths
