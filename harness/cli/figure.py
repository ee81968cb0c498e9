"""The verbs that draw: `harness figure`, `harness picture` and `harness report`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness import api
from harness.cli import completion, options
from harness.cli.eval import MethodOption, PoolingOption, check_model
from harness.cli.output import echo
from harness.cli.progress import working
from harness.errors import UserError, check_extra
from harness.report.figures.specification import Figure, FigureFormat
from harness.report.papers import load_paper
from harness.shared_cache import check_caches
from harness.steps import Steps
from harness.targets.stores import opened

FormatOption = Annotated[FigureFormat, typer.Option("--format", help="The format of the files.")]


def figure(
    sweep: options.SweepOption = None,
    paper: options.PaperOption = None,
    number: Annotated[
        int | None, typer.Option("--figure", min=1, help="With --paper: the number of the figure.")
    ] = None,
    encoder: options.OursOnOption = None,
    store: options.StoreOption = None,
    output: Annotated[Path, typer.Option(help="The folder for the figures.")] = Path("figures"),
    format: FormatOption = "png",
    bare: Annotated[
        bool,
        typer.Option("--bare", help="Leave out titles and captions, for print; they are printed."),
    ] = False,
) -> None:
    """Draw a sweep, or a figure of a paper beside what the paper says, from what the store has.

    Example: harness figure --paper diffaug --figure 4 --format pdf
    """
    check_extra("figures", "matplotlib", "harness figure")
    if (sweep is None) == (paper is None):
        raise UserError("name what is drawn: --sweep S, or --paper P --figure N")
    if paper is None:
        if number is not None or encoder is not None:
            raise UserError("--figure and --encoder belong to a paper: --paper P --figure N")
    elif number is None:
        raise UserError(f"--paper {paper} needs the number of a figure: --figure N")
    else:
        load_paper(paper)
    results = opened(store)
    what = sweep if paper is None else f"figure {number} of {paper}"
    with working(f"drawing {what} from the store {results.place}") as work:
        # With matplotlib, after the line about what is done.
        from harness.targets.drawings import paper_drawing, sweep_drawing

        if paper is None or number is None:
            made, notes = sweep_drawing(str(sweep), results)
        else:
            made, notes = paper_drawing(paper, number, encoder, results, work)
        if made:
            _make(output)
        paths = _written(made, output, format, work, bare=bare)
    for path, each in zip(paths, made, strict=True):
        echo(f"{path}: {each.title}. {each.caption}" if bare else str(path))
    for note in notes:
        echo(note)


def picture(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Trials' keys, Hub names or folders.",
            autocompletion=completion.models,
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("pictures"),
    pooling: PoolingOption = None,
    method: MethodOption = None,
    store: options.StoreOption = None,
    format: FormatOption = "png",
) -> None:
    """Draw the embeddings of STS-B test, with models side by side.

    The pictures show the cosines by gold score, their densities, and a projection on a plane.

    Example: harness picture 4f2a 77c0 --output pictures
    """
    check_extra("figures", "matplotlib", "harness picture")
    check_caches()
    for name in names:
        check_model(name)
    from harness.trials.lookup import named

    results = opened(store)
    resolved = [named(name, results, pooling=pooling, method=method) for name in names]
    with working(f"drawing {', '.join(names)} into {output}") as work:
        from harness.targets.drawings import pictures, sts_pairs

        pairs, models = sts_pairs(), [resolve() for resolve in resolved]
        _make(output)  # before models are loaded, which takes long
        paths = _written(pictures(models, pairs, results, work), output, format, work)
    for path in paths:
        echo(str(path))


def _make(folder: Path) -> None:
    with options.writing(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)


def _written(
    figures: Sequence[Figure],
    folder: Path,
    format: FigureFormat,
    steps: Steps,
    *,
    bare: bool = False,
) -> list[Path]:
    """Write each figure into the folder of `--output`, which is there; the paths of the files.

    bare: without title and caption.
    """
    from harness.report.figures.printing import write_figures

    paths: list[Path] = []
    with options.writing(folder, "--output"):
        for path in write_figures(figures, folder, format, bare=bare):
            paths.append(path)
            steps("drawing figures", len(paths), len(figures))
    return paths


def report(
    out: Annotated[Path, typer.Option(help="The folder of the report.")],
    paper: options.PaperOption = None,
    encoder: options.OursOnOption = None,
    sweep: options.SweepOption = None,
    store: options.StoreOption = None,
) -> None:
    """Write a report: tables, figures, cost, failures, environment, and what is missing.

    The folder opens from disk and from any web server, and asks for nothing outside of it.

    Example: harness report --paper diffaug --out report
    """
    if paper and sweep:
        raise UserError("--paper and --sweep are two reports; leave one of them out")
    if paper:
        load_paper(paper)
    api.check_ours_on(encoder, paper)
    results = opened(store)
    with working(f"writing a report of the store {results.place} into {out}") as work:
        from harness.report.page.writing import check_room, write_report
        from harness.targets.drawings import page_of

        with options.writing(out, "--out"):
            check_room(out)  # before the store is read
        page = page_of(paper, encoder, sweep, results)
        with options.writing(out, "--out"):
            start = write_report(page, out, work)
    echo(f"{start}: open it in a browser")
