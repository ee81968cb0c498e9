"""`harness show`: shows everything about a trial, a cell of a table, a method or a corpus."""

import string
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import completion, options
from harness.cli.output import Screen
from harness.errors import UserError, suggest
from harness.evaluation.scores import Uncertainty
from harness.inputs import kind_of
from harness.report.papers import cell_address, papers
from harness.targets.stores import opened
from harness.trials.run_again import again

if TYPE_CHECKING:
    from harness.plugin.fields import DescribedField
    from harness.trials.record import Record


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="KEY|CELL|METHOD|CORPUS",
            help="A trial's key or its first characters (see `harness list trials`); a cell of a "
            "table, such as 3.avg or diffaug.1.3.avg; the name or path of a method; "
            "or a corpus.",
            autocompletion=completion.shown,
        ),
    ],
    store: options.StoreOption = None,
    encoder: options.OursOnOption = None,
) -> None:
    """Show a trial, a cell of a table with its trials, a method, or a corpus.

    The last line of a trial or a cell is the command that runs it again. A cell is named by the
    number of its row in `harness table` and its column, and in a published table by paper, table,
    row and column.

    Example: harness show 3.avg
    """
    # These take 0.1 s, which `harness show --help` and a wrong option need not.
    from harness.data.corpora import is_corpus

    console = Screen()
    of_paper = _is_of_paper(name)
    if encoder and not of_paper:
        raise UserError("--encoder belongs to a cell of a paper, such as diffaug.1.3.avg")
    if is_corpus(name) and not of_paper:
        from harness.evaluation.corpus_facts import corpus_facts

        _print(corpus_facts(name), console)
    elif set(name) <= set(string.hexdigits.lower()) and not _is_method(name):
        results = opened(store)
        print_record(results.find(name), results.place, console)
    elif not of_paper and _is_method(name):
        print_method(name, console)
    elif "." in name:
        from harness.report.cell_facts import cell_facts

        _print(cell_facts(name, encoder, opened(store)), console)
    else:
        from harness.plugin import registry

        file = f"{name}.py"  # of a plugin in the working directory
        near = [file] if Path(file).exists() else registry.names()
        raise UserError(
            f'"{name}" cannot be the key of a trial: keys have the characters 0 to 9 and a to f; '
            f"see `harness list trials`; nor is it a method{suggest(name, near)}"
        )


def _print(lines: Iterable[str], console: Screen) -> None:
    for line in lines:
        console.say(line)


def _is_of_paper(name: str) -> bool:
    """Whether it is the cell of a paper, of which one of one's own has a path."""
    cell = cell_address(name)
    return cell is not None and (cell.paper in papers() or kind_of(Path(cell.paper)) != "nothing")


def _is_method(name: str) -> bool:
    """Whether it is the name or the path of a method."""
    from harness.plugin import registry

    # A folder of the working directory is a method by its bare name, as for `harness run`.
    folder = kind_of(Path(name, "__init__.py")) != "nothing"
    return "/" in name or name.endswith(".py") or folder or name in registry.names()


def print_record(record: "Record", store: str, console: Screen, locator: str | None = None) -> None:
    """Print the fields of a record, one per line, and the command that runs the trial again.

    store: where the record is. `locator`: the name or path of the method, as the user wrote it.
    """
    _print(_record_lines(record), console)
    console.say(f"again: {again(record, store, locator)}")


def _record_lines(record: "Record") -> Iterator[str]:
    for name, value in vars(record).items():
        if name == "history":
            yield from _curves(value)
        elif value and isinstance(value, Mapping):
            yield f"{name}:"
            for inner, part in value.items():
                yield f"  {inner}: {_interval(part) if name == 'uncertainty' else _number(part)}"
        elif value not in (None, "", {}):
            shown = _number(value).replace("\n", "\n  ")  # a reason has lines of output
            yield f"{name}: {shown}"


def _curves(history: list[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each metric of each stage: its first and its last value."""
    curves: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for point in history:
        curves.setdefault((point["stage"], point["metric"]), []).append(point)
    if curves:
        yield "history (stage, metric, first and last value):"
    for (stage, metric), points in curves.items():
        ends = (points[0], points[-1])
        first, last = (f"{point['value']:.5g} at {point['step']}" for point in ends)
        more = f" -> {last} ({len(points)} values)" if len(points) > 1 else ""
        yield f"  {stage} {metric}: {first}{more}"


def _number(value: Any) -> str:
    if isinstance(value, float) and abs(value) >= 1:
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return str(value)


def _interval(spread: Uncertainty) -> str:
    interval = f"95 % from {spread.low:.2f} to {spread.high:.2f}"
    return f"standard error {spread.standard_error:.2f}, {interval}"


def print_method(name: str, console: Screen) -> None:
    """Print every hyperparameter of the method with this name or path.

    Raises UserError for a method that cannot be loaded.
    """
    from harness.plugin import registry
    from harness.plugin.fields import OWN, RELEASED, SHARED, described_fields

    config = registry.load(name).config_type
    fields = described_fields(config)
    _line(console, registry.docstring_line(registry.locate(name)))
    for title in (OWN, RELEASED, SHARED):
        group = [field for field in fields if field.group == title]
        if group:
            console.print()
            _line(console, f"{title} (--set NAME=VALUE):")
        for field in group:
            _print_field(field, console)


def _print_field(field: "DescribedField", console: Screen) -> None:
    """Print a field; the paper's values stand before its default."""
    default = f"default {field.default}" if field.default else "no default"
    kind = ", ".join(filter(None, [field.type, field.range, default]))
    _line(console, f"{field.name} ({kind})", 2)
    if field.meaning:
        _line(console, field.meaning, 6)
    if field.published:
        _line(console, f"published: {'; '.join(field.published)}", 6)


def _line(console: Screen, text: str, indent: int = 0) -> None:
    """Print a text, which is Markdown for the site, with all of its lines indented."""
    blank = " " * indent
    lines = textwrap.fill(
        text.replace("`", ""),
        console.width,
        initial_indent=blank,
        subsequent_indent=blank,
        break_long_words=False,
        break_on_hyphens=False,
    )
    console.say(lines)
