"""What the verbs that draw share: models and their vectors, and the folder of the files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import options
from harness.errors import extra

if TYPE_CHECKING:
    from harness.data.sts_pairs import Pairs
    from harness.report.figures.embeddings import Drawn
    from harness.report.figures.report_figure import ReportFigure
    from harness.report.figures.writing import FigureFormat
    from harness.steps import Steps
    from harness.trials.lookup import MeasuredModel
    from harness.trials.store import Store


def check_drawing(verb: str) -> None:
    """Raises UserError when matplotlib is not installed, which draws the figures of this verb."""
    with extra("figures", f"harness {verb}"):
        import matplotlib as _matplotlib
    del _matplotlib


def drawn_models(
    models: "Sequence[Callable[[], MeasuredModel]]",
    store: "Store",
    steps: "Steps",
    folder: Path | None = None,
) -> "tuple[list[Drawn], Pairs]":
    """The models with their vectors of STS-B test, and its pairs.

    models: as `harness.trials.lookup.named` gives them. steps: hears what is being done. folder:
    where the files will be; it is made before models are loaded, which takes long.
    """
    from harness.evaluation.suites import Embeddings, suite
    from harness.report.figures.embeddings import Drawn
    from harness.steps import prefixed

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
    figures: "Sequence[ReportFigure]",
    folder: Path,
    format: "FigureFormat",
    steps: "Steps",
    *,
    bare: bool = False,
) -> list[Path]:
    """Write each figure into the folder of `--output`, which is there; the paths of the files.

    bare: without title and caption.
    """
    from harness.report.figures.writing import write_figures

    paths: list[Path] = []
    with options.writing(folder, "--output"):
        for path in write_figures(figures, folder, format, bare=bare):
            paths.append(path)
            steps("drawing figures", len(paths), len(figures))
    return paths
