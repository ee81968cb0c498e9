"""`harness picture`: draws the embeddings of models."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import options
from harness.cli.drawing import check_drawing, drawn_models, written
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
    from harness.cli.progress import working
    from harness.shared_cache import check_caches
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
