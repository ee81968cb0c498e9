"""`harness compare`: tests whether two models differ."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from harness.cli import options
from harness.cli.eval import MethodOption, ModelArgument, PoolingOption, check_model
from harness.cli.output import Screen
from harness.cli.progress import working
from harness.shared_cache import check_caches
from harness.steps import prefixed

if TYPE_CHECKING:
    from harness.trials.lookup import MeasuredModel


def compare(
    a: ModelArgument,
    b: ModelArgument,
    suite: Annotated[
        str,
        typer.Option(
            "--suite",
            help="sts, graded (the pairs that come with harness), or a table of scored pairs, such "
            "as pairs.csv.",
        ),
    ] = "sts",
    pooling: PoolingOption = None,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Compare two models on the same sentence pairs.

    It prints the difference of their Spearman x100, with the interval and the p-value of a paired
    bootstrap.

    Example: harness compare 4f2a sentence-transformers/all-MiniLM-L6-v2
    """
    check_caches()
    for each in (a, b):
        check_model(each)
    from harness.evaluation.comparison import differences, pairs_of_tests
    from harness.evaluation.suites import check_name
    from harness.evaluation.suites import suite as suite_called
    from harness.trials.lookup import named

    check_name(suite)
    found = options.opened(store)
    resolved = [named(each, found, pooling=pooling, method=method) for each in (a, b)]
    with working(f"comparing {a} and {b} on {suite}") as work:
        measured = suite_called(suite)
        pairs_of_tests(measured)  # it raises before models are loaded or trained
        models = [each() for each in resolved]
        work("loading torch and the models")
        from harness.trials.evaluate import Measurement

        measurements = [
            Measurement(each, found, steps=prefixed(name, work))
            for name, each in zip("AB", models, strict=True)
        ]
        rows = differences(measured, measurements[0].embed, measurements[1].embed, work)
    lines = []
    for task, (one, two, compared) in rows.items():
        scores = [f"{one:.2f}", f"{two:.2f}", f"{compared.difference:+.2f}"]
        interval = f"{compared.uncertainty.low:+.2f} to {compared.uncertainty.high:+.2f}"
        lines.append([task, *scores, interval, f"{compared.p_value:.3f}"])
    _print(Screen(), models, lines)


def _print(
    console: Console, models: "Sequence[MeasuredModel]", lines: Sequence[Sequence[str]]
) -> None:
    """Print the names of the two models and the table, which has one line per task."""

    from harness.evaluation.bootstrap import RESAMPLES

    table = Table("task", box=box.SIMPLE_HEAD)
    for title in ("A", "B", "A - B", "95 % interval", "p"):
        table.add_column(title, justify="right")
    for line in lines:
        table.add_row(*line)
    console.print(f"A: {models[0].label}\nB: {models[1].label}", soft_wrap=True)
    console.print(table)
    console.print(
        f"Spearman x100; {RESAMPLES} resamples of the sentence pairs, the same for both models. "
        "p: two-sided, for no difference. There is one checkpoint of each model, so p does not "
        "cover the spread over seeds.",
        soft_wrap=True,
    )
