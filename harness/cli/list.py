"""`harness list`: what there is."""

from typing import Annotated, Literal

import typer

from harness.cli import options


def list_(
    what: Annotated[
        Literal["methods", "spaces", "suites", "papers", "trials"],
        typer.Argument(help="What to list."),
    ],
    store: options.Store = None,
) -> None:
    """List methods, search spaces, evaluation suites, papers with reported numbers, or the trials in the store.

    Example: harness list methods
    """
    {"methods": _methods, "spaces": _spaces, "suites": _suites, "papers": _papers}.get(
        what, lambda: _trials(store)
    )()


def _methods() -> None:
    from harness.plugin import registry

    for name, source in sorted(registry.sources().items()):
        typer.echo(f"{name:<12} {registry.summary(source)}")


def _spaces() -> None:
    from pathlib import Path

    found = options.shipped_spaces()
    here = sorted(Path("search_spaces").rglob("*.y*ml"))
    found |= {str(path): path for path in here if path.resolve() not in found.values()}
    for name, path in found.items():
        first = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        typer.echo(f"{name:<32} {first}")


def _suites() -> None:
    from harness.evaluation.suites import SHIPPED, suite

    for name in SHIPPED:
        found = suite(name)
        dev = f"; selects on {found.dev_tasks[0]}" if found.dev_tasks else ""
        typer.echo(f"{name:<12} {', '.join(found.tests)}{dev}")


def _papers() -> None:
    from harness.report.reported import load_paper, papers

    for name in papers():
        typer.echo(f"{name:<12} {load_paper(name).title}")


def _trials(store: options.Store) -> None:
    from harness.trials.store import label

    reading = options.opened(store).read()
    rows = reading.rows()
    for name, reason in reading.unreadable:
        typer.echo(f"{name} cannot be read and is left out: {reason}", err=True)
    for row in sorted(rows, key=lambda row: (row["started"] is None, str(row["started"]))):
        dev = next(
            (f"{value:.2f}" for name, value in row["dev"].items() if not name.endswith("-start")),
            "",
        )
        role = row["suite"] if row["role"] == "evaluation" else row["role"]
        state = f"{row['key'][:10]}  {row['status']:<9} {role:<10} dev {dev:>6}"
        typer.echo(f"{state}  {label(row)}  {row['reason'] or ''}")
