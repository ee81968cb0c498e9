"""`harness picture`: draws the embeddings of models."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.eval import MethodOption, PoolingOption
from harness.errors import UserError


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
) -> None:
    """Draw the embeddings of STS-B test, with models side by side.

    The pictures show the cosines by gold score, their densities, and a projection on a plane.

    Example: harness picture 4f2a 77c0 --output pictures
    """
    from rich.console import Console

    from harness.evaluation.suites import Embeddings, suite
    from harness.report.embedding_figures import Drawn, draw_pictures
    from harness.shared_cache import check_caches
    from harness.trials.evaluate import Measurement
    from harness.trials.lookup import model

    check_caches()
    found = options.opened(store)
    pairs = suite("geometry").load("geometry")
    models = [model(name, found, pooling=pooling, method=method) for name in names]
    console, drawn = Console(highlight=False), []
    with _writing(output):  # before models are loaded or trained, which takes long
        output.mkdir(parents=True, exist_ok=True)
    with console.status("loading") as status:
        for each in models:
            vectors = Embeddings(Measurement(each, found, status=status.update).embed, pairs.texts)
            drawn.append(Drawn(each.label, vectors(pairs.first), vectors(pairs.second)))
    with _writing(output):
        for path in draw_pictures(drawn, pairs, output):
            console.print(f"{path}", soft_wrap=True, markup=False)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Raises UserError when `folder` cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror}); choose another folder with --output"
        ) from None
