"""`harness list`: lists methods, search spaces, suites, corpora, papers and trials."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from harness.cli import options
from harness.cli.output import echo
from harness.errors import NotHere, UserError, headline, one_line
from harness.evaluation.catalogue import CARDS
from harness.inputs import read_text
from harness.report.papers import load_paper, papers
from harness.sweeps.spaces.overrides import shipped_spaces
from harness.targets.stores import opened

NEWEST = 50
"""The number of trials that are listed unless all are asked for"""
_NAMED = ("method", "setting", "encoder", "seed", "label_fraction", "subset")
_COLUMNS = (
    *_NAMED, "key", "status", "role", "suite", "selected_by", "dev", "search", "reason", "started",
)  # fmt: skip


def list_(
    kind: Annotated[
        Literal["methods", "spaces", "suites", "corpora", "papers", "trials"],
        typer.Argument(help="What to list."),
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CORPUS|PAPER]...",
            help="With corpora: list these, too, such as a Python file that registers one. With "
            "papers: list these alone, such as the folder of one of your own.",
            show_default=False,
        ),
    ] = None,
    encoder: options.OursOnOption = None,
    store: options.StoreOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help=f"List all trials, not only the {NEWEST} newest.")
    ] = False,
) -> None:
    """List methods, search spaces, suites, corpora, the store's trials, or papers.

    `harness list papers` also says what share of each table and figure the store has.

    Example: harness list methods
    """
    if names and kind not in ("corpora", "papers"):
        raise UserError(f"{kind} are listed without names; corpora and papers may be named")
    if encoder and kind != "papers":
        raise UserError(f"{kind} are listed without --encoder; it belongs to papers")
    if kind == "papers":
        _papers(names or papers(), store, encoder)
    elif kind == "trials":
        _trials(store, everything=everything)
    else:
        printers = {"methods": _methods, "spaces": _spaces, "suites": _suites}
        _corpora(names or []) if kind == "corpora" else printers[kind]()


def _methods() -> None:
    from harness.plugin import registry

    for name, source in sorted(registry.sources().items()):
        echo(f"{name:<20} {registry.docstring_line(source)}")


def _spaces() -> None:
    spaces = shipped_spaces()
    here = sorted(Path("search_spaces").rglob("*.y*ml"))
    shipped = set(map(str, spaces.values()))
    # `Path.resolve` fails for a link to itself.
    spaces |= {str(path): path for path in here if os.path.realpath(path) not in shipped}
    for name, path in spaces.items():
        try:
            first = read_text(path).partition("\n")[0].lstrip("# ")
        except UserError as error:
            first = f"({error})"
        echo(f"{name:<32} {first}")


def _suites() -> None:
    from harness.evaluation.suites import suite

    for name in CARDS:
        listed = suite(name)
        dev = f"; selects on {listed.card.dev}" if listed.card.dev else ""
        echo(f"{name:<18} {', '.join(listed.tests)}{dev}")


def _corpora(further: list[str]) -> None:
    """Print name, published or counted size, shape and licence of corpora.

    They are those with a short name, and `further` ones.
    """
    from harness.data.corpora import SOURCES, count_items, source

    for name, corpus in (SOURCES | {name: source(name) for name in further}).items():
        items = corpus.items or count_items(name)
        size = "" if items is None else f"{items:,}"
        try:
            corpus.paths(download=False)
            missing = ""
        except NotHere:
            missing = "not on this machine"
        line = f"{name:<26} {size:>9}  {corpus.shape:<14}  {corpus.licence:<20}  {missing}"
        echo(line.rstrip())


def _papers(listed: list[str], store: str | None, encoder: str | None) -> None:
    """Print for each table and figure of these papers what share of it the store has."""
    from harness.plugin.registry import sources
    from harness.report.coverage import shares
    from harness.report.paper_cells import Comparer
    from harness.report.quantities import PAPER_COLUMNS

    tables = [load_paper(name) for name in listed]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    methods = sources()
    comparer = Comparer(opened(store).read(PAPER_COLUMNS).table, encoder)
    for paper in tables:
        echo(f"{paper.paper:<12} {paper.title}")
        for share in shares(paper, comparer, methods):
            line = f"  {share.name:<9} {share!s:<40} {share.about}"
            echo(line[:width].rstrip())
    for note in comparer.notes:
        echo(note)


def _trials(store: options.StoreOption, *, everything: bool) -> None:
    """Print a line for each trial in the order of their starts; those without one come last."""
    import pyarrow.compute as pc

    from harness.trials.record import FAMILY_COLUMNS, family_of, searched_names

    trials, named = opened(store), (*FAMILY_COLUMNS, "configuration")
    reading = trials.read((*_COLUMNS, *named) if everything else _COLUMNS)
    for name, reason in reading.unreadable:
        echo(f"{name} cannot be read and is left out: {reason}", err=True)
    order = [("started", "ascending"), ("key", "ascending")]
    rows = pc.sort_indices(reading.table.select(["started", "key"]), sort_keys=order)
    earlier = 0 if everything else max(0, len(rows) - NEWEST)
    if earlier:
        echo(f"{earlier} earlier trials; --all lists them, too")
    shown = reading.table.take(rows[earlier:])
    # Configurations are long texts, so only those of the lines that are printed are read.
    keys = {"key": shown["key"].to_pylist()}
    with_values = shown if everything else trials.read(named, keys).table
    searched = searched_names(with_values)
    pairs = with_values.select(["key", "configuration"]).to_pylist()
    values = {row["key"]: row["configuration"] for row in pairs}
    for row in shown.to_pylist():
        row["configuration"] = values.get(row["key"])
        echo(_line(row, searched.get(family_of(row), [])))


def _line(row: Mapping[str, Any], searched: list[str]) -> str:
    from harness.trials.record import searched_values, trial_label

    named = {name: row[name] for name in _NAMED}
    # What a wrong engine wrote has failed, and its score is no result.
    scores = dict(row["dev"] or ()) if row["status"] != "failed" else {}
    score = scores.get(row["selected_by"])
    dev = "" if score is None else f"{score:.2f}"
    role = row["suite"] if row["role"] == "evaluation" else row["role"]
    state = f"{row['key'][:10]}  {row['status']:<9} {role:<10} dev {dev:>6}"
    label = trial_label(**named, searched=searched_values(row, searched))
    return one_line(f"{state}  {label}  {headline(row['reason'])}")
