"""`harness eval`: suites on any model."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli import options
from harness.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.evaluation.suites import Suite

Named = Annotated[
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
    name: Named,
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
    store: options.Store = None,
) -> None:
    """Measure a model with one or more suites and store the scores; what is stored is not measured again.

    Example: harness eval sentence-transformers/all-MiniLM-L6-v2 --suite sts,transfer,retrieval,geometry
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
    to_do = [each for each in suites if (records[each.name] or {}).get("status") != "finished"]
    for each in suites:
        if each not in to_do:
            _print(console, each, records[each.name] or {}, "in the store")
    complete = True
    if to_do:
        with console.status("loading") as status:
            measurement = Measurement(model, found, keep=keep_embeddings, told=status.update)
            for each, record in zip(to_do, evaluations(measurement, to_do), strict=True):
                found.write(record)
                _print(console, each, record, _cost(record))
                complete &= record["status"] == "finished"
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


def _cost(record: dict[str, Any]) -> str:
    embedding, rate = record["evaluation_seconds"], record["sentences_per_second"]
    embedded = (
        f"embedding {embedding:.1f} s ({rate:.0f} sentences/s)" if rate else "embeddings were kept"
    )
    return f"{embedded}, scoring {record['wall_seconds'] - embedding:.1f} s"


def _print(console: "Console", suite: "Suite", record: dict[str, Any], how: str) -> None:
    """One metric a line, with the bootstrap's interval, and what is missing."""
    from rich import box
    from rich.table import Table

    table = Table("metric", box=box.SIMPLE_HEAD)
    for title in ("score", "standard error", "95 % interval"):
        table.add_column(title, justify="right")
    scores, spread = record["dev"] | record["test"], record["uncertainty"]
    small = max((abs(value) for value in scores.values()), default=0) < 10
    for metric, value in scores.items():
        table.add_row(
            metric, f"{value:.4f}" if small else f"{value:.2f}", *_uncertain(spread.get(metric))
        )
    console.print(f"\n{suite.name} ({how})", soft_wrap=True)
    if scores:
        console.print(table)
    if record["reason"]:
        console.print(f"missing in {suite.name}: {record['reason']}", soft_wrap=True, markup=False)


def _uncertain(spread: dict[str, float] | None) -> list[str]:
    return (
        [f"{spread['standard_error']:.2f}", f"{spread['low']:.2f} to {spread['high']:.2f}"]
        if spread
        else ["", ""]
    )
