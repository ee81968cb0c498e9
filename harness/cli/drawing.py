"""What the verbs that draw share: models and their vectors, and the folder of the files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import options
from harness.errors import extra

if TYPE_CHECKING:
    from harness.data.sts_pairs import Pairs
    from harness.report.figures.embeddings import Drawn
    from harness.trials.store import Store


def check_drawing(verb: str) -> None:
    """Raises UserError when matplotlib is not installed, which draws the figures of this verb."""
    with extra("figures", f"harness {verb}"):
        import matplotlib as _matplotlib
    del _matplotlib


def drawn_models(
    names: Sequence[str],
    store: "Store",
    *,
    pooling: str | None = None,
    method: str | None = None,
    folder: Path | None = None,
) -> "tuple[list[Drawn], Pairs]":
    """The models of these names with their vectors of STS-B test, and its pairs.

    `folder`: where the files will be; it is made before models are loaded, which takes long.
    """
    from harness.cli.screen import Screen
    from harness.evaluation.suites import Embeddings, suite
    from harness.report.figures.embeddings import Drawn
    from harness.shared_cache import check_caches
    from harness.trials.evaluate import Measurement
    from harness.trials.lookup import model

    check_caches()
    pairs = suite("geometry").load("geometry")
    models = [model(name, store, pooling=pooling, method=method) for name in names]
    if folder is not None:
        with options.writing(folder, "--output"):
            folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with Screen().status("loading") as status:
        for each in models:
            vectors = Embeddings(Measurement(each, store, status=status.update).embed, pairs.texts)
            drawn.append(Drawn(each.label, vectors(pairs.first), vectors(pairs.second)))
    return drawn, pairs
