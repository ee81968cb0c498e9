"""`harness list`: lists methods, search spaces, suites, papers and trials."""

from typing import Annotated, Literal

import typer

from harness.cli import options


def list_(
    what: Annotated[
        Literal["methods", "spaces", "suites", "papers", "trials"],
        typer.Argument(help="What to list."),
    ],
    store: options.StoreOption = None,
) -> None:
    """List methods, search spaces, suites, papers with reported numbers, or the store's trials.

    Example: harness list methods
    """
    {"methods": _methods, "spaces": _spaces, "suites": _suites, "papers": _papers}.get(
        what, lambda: _trials(store)
    )()


def _methods() -> None:
    from harness.plugin import registry

    for name, source in sorted(registry.sources().items()):
        typer.echo(f"{name:<12} {registry.docstring_line(source)}")


def _spaces() -> None:
    import os
    from pathlib import Path

    from harness.errors import UserError
    from harness.inputs import read_text

    found = options.shipped_spaces()
    here = sorted(Path("search_spaces").rglob("*.y*ml"))
    known = set(map(str, found.values()))
    # `Path.resolve` fails for a link to itself.
    found |= {str(path): path for path in here if os.path.realpath(path) not in known}
    for name, path in found.items():
        try:
            first = read_text(path).partition("\n")[0].lstrip("# ")
        except UserError as error:
            first = f"({error})"
        typer.echo(f"{name:<32} {first}")


def _suites() -> None:
    from harness.evaluation.catalogue import CARDS
    from harness.evaluation.suites import suite

    for name in CARDS:
        found = suite(name)
        dev = f"; selects on {found.card.dev}" if found.card.dev else ""
        typer.echo(f"{name:<12} {', '.join(found.tests)}{dev}")


def _papers() -> None:
    from harness.report.reported import load_paper, papers

    for name in papers():
        typer.echo(f"{name:<12} {load_paper(name).title}")


def _trials(store: options.StoreOption) -> None:
    reading = options.opened(store).read()
    for name, reason in reading.unreadable:
        typer.echo(f"{name} cannot be read and is left out: {reason}", err=True)
    records = reading.records()
    # None and a time cannot be compared, so records without a start come last.
    for record in sorted(records, key=lambda each: (each.started is None, str(each.started))):
        dev = "" if record.dev_score is None else f"{record.dev_score:.2f}"
        role = record.suite if record.role == "evaluation" else record.role
        state = f"{record.key[:10]}  {record.status:<9} {role:<10} dev {dev:>6}"
        typer.echo(f"{state}  {record.label}  {record.reason or ''}")
