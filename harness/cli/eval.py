"""`harness eval`: suites on any model."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli import options
from harness.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.evaluation.scores import Uncertainty
    from harness.evaluation.suites import Suite
    from harness.trials.record import Record

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A trial's key, a model's Hub name, or a folder.", show_default=False
    ),
]
PoolingOption = Annotated[
    Literal["cls", "mean", "first-last", "first-last-embeddings", "last-two"] | None,
    typer.Option(
        "--pooling",
        help="Of a plain encoder.  [default: a sentence-transformers folder's own, else mean]",
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method", metavar="PATH", help="The plugin behind a trial, where it has no name here."
    ),
]


def eval_(
    name: ModelArgument,
    suite: Annotated[
        str,
        typer.Option(
            "--suite",
            help="sts, transfer, retrieval, geometry, graded, or a Python file; several: a,b.",
        ),
    ] = "sts",
    pooling: PoolingOption = None,
    keep_embeddings: Annotated[
        bool,
        typer.Option("--keep-embeddings", help="Keep all vectors in the cache, for later suites."),
    ] = False,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Measure a model with one or more suites, and store the scores.

    What is stored is not measured again.

    Example: harness eval sentence-transformers/all-MiniLM-L6-v2 --suite sts,transfer
    """
    from rich.console import Console

    from harness.evaluation.suites import suite as named
    from harness.trials.evaluate import Measurement, evaluation_key, evaluations
    from harness.trials.lookup import model as resolved

    suites = [named(each.strip()) for each in dict.fromkeys(suite.split(","))]
    _check(suites)
    found = options.opened(store)
    found.check_writable()
    model = resolved(name, found, pooling=pooling, method=method)
    console = Console(highlight=False)
    console.print(model.label, soft_wrap=True, markup=False)
    records = {each.name: found.get(evaluation_key(model, each)) for each in suites}
    to_do = [each for each in suites if not _finished(records[each.name])]
    for each in suites:
        if each not in to_do:
            _print(console, each, records[each.name], "in the store")
    complete = True
    if to_do:
        with console.status("loading") as status:
            measurement = Measurement(model, found, keep=keep_embeddings, status=status.update)
            for each, record in zip(to_do, evaluations(measurement, to_do), strict=True):
                found.write(record)
                _print(console, each, record, _cost(record))
                complete &= record.finished
        if keep_embeddings:
            console.print(f"embeddings: {measurement.folder}", soft_wrap=True)
    if not complete:
        raise typer.Exit(1)


def _check(suites: "list[Suite]") -> None:
    """Raises UserError when two suites have one name, or when there are no data for any of them."""
    names = [each.name for each in suites]
    for each in names:
        if names.count(each) > 1:
            raise UserError(f'two of the suites are called "{each}"; rename one of them')
    missing = []
    for suite in suites:
        try:
            suite.files()
        except UserError as error:
            missing.append(error)
    if len(missing) == len(suites):
        raise missing[0]


def _finished(record: "Record | None") -> bool:
    return record is not None and record.finished


def _cost(record: "Record") -> str:
    embedding, rate = record.evaluation_seconds or 0.0, record.sentences_per_second
    embedded = "embeddings were kept"
    if rate:
        embedded = f"embedding {embedding:.1f} s ({rate:.0f} sentences/s)"
    return f"{embedded}, scoring {(record.wall_seconds or 0.0) - embedding:.1f} s"


def _print(console: "Console", suite: "Suite", record: "Record | None", how: str) -> None:
    """Print one metric a line, with the bootstrap's interval, and what is missing."""
    from rich import box
    from rich.table import Table

    if record is None:
        return
    table = Table("metric", box=box.SIMPLE_HEAD)
    for title in ("score", "standard error", "95 % interval"):
        table.add_column(title, justify="right")
    scores = {**record.dev, **record.test}
    small = max((abs(value) for value in scores.values()), default=0) < 10
    for metric, value in scores.items():
        shown = f"{value:.4f}" if small else f"{value:.2f}"
        table.add_row(metric, shown, *_uncertain(record.uncertainty.get(metric)))
    console.print(f"\n{suite.name} ({how})", soft_wrap=True)
    if scores:
        console.print(table)
    if record.reason:
        missing = f"missing in {suite.name}: {record.reason}"
        console.print(missing, soft_wrap=True, markup=False)


def _uncertain(spread: "Uncertainty | None") -> list[str]:
    if spread is None:
        return ["", ""]
    return [f"{spread.standard_error:.2f}", f"{spread.low:.2f} to {spread.high:.2f}"]
