"""`harness picture`: draws the embeddings of models."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import options
from harness.cli.drawing import check_drawing, drawn_models
from harness.cli.eval import MethodOption, PoolingOption
from harness.cli.output import echo


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
    found = options.opened(store)
    models, pairs = drawn_models(names, found, pooling=pooling, method=method, folder=output)
    from harness.report.figures.cosine_densities import densities_figure, gold_figure
    from harness.report.figures.embedding_plane import plane_figure
    from harness.report.figures.writing import write_figures

    figures = [make(models, pairs) for make in (gold_figure, densities_figure, plane_figure)]
    with options.writing(output, "--output"):
        for path in write_figures(figures, output, format):
            echo(str(path))
