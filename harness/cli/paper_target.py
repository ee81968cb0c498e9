"""A published table as the target of a sweep: the trials that it still lacks."""

from typing import TYPE_CHECKING

import typer

from harness.cli import options
from harness.errors import UserError, suggest
from harness.plugin import registry

if TYPE_CHECKING:
    from harness.report.matching import Wanted
    from harness.sweep.overrides import Overrides
    from harness.sweep.search import Search


def is_compared(paper: str, number: int, ablations: list[str]) -> bool:
    """Whether our numbers are set beside those of a table; else it is one of the `ablations`.

    ablations: the names of search spaces for single tables. Raises UserError for an unknown paper
    and for a table that is neither.
    """
    from harness.report.reported import load_paper

    compared = load_paper(paper).numbers
    spaces = [name.removeprefix(f"{paper}-table") for name in ablations]
    if str(number) not in (*compared, *spaces):
        raise UserError(
            f"there is nothing to run for Table {number} of {paper}"
            f"{suggest(str(number), [*compared, *filter(str.isdigit, spaces)])}"
        )
    return str(number) in compared


def table_searches(
    paper: str, number: int, overrides: "Overrides", store: str | None
) -> "list[Search]":
    """The searches of what a table still lacks: published values on the final seeds.

    Raises UserError for an unknown method, and for values that the methods refuse. A row whose
    method cannot run here is named and left out.
    """
    from harness.report.lacking import lacking
    from harness.report.measured_trials import TABLE_COLUMNS
    from harness.report.reported import load_paper
    from harness.sweep.published import FINAL_SEEDS, FINAL_SUBSETS
    from harness.sweep.space_values import check_command_line

    methods = {registry.locate(name).stem: name for name in overrides.methods}
    reading = options.opened(store).read(TABLE_COLUMNS)
    draws = len(overrides.seeds or FINAL_SEEDS), len(overrides.subsets or FINAL_SUBSETS)
    found = load_paper(paper)
    missing = [
        wanted
        for wanted in lacking(reading, found, found.numbers[str(number)], *draws)
        if not methods or wanted.method in methods
    ]
    plugins = {wanted.method: methods.get(wanted.method, wanted.method) for wanted in missing}
    check_command_line(overrides.values, [registry.load(each) for each in plugins.values()])
    searches: dict[str, Search] = {}  # with other encoders, several rows may ask for the same
    for wanted in missing:
        for search in _searches(plugins[wanted.method], wanted, overrides):
            searches.setdefault(repr((search.method, search.config)), search)
    return list(searches.values())


def _searches(method: str, wanted: "Wanted", overrides: "Overrides") -> "list[Search]":
    """The searches of one row, on its encoder or on those of the command line."""
    from harness.report.matching import yaml_text
    from harness.sweep.published import published_search

    variant = " ".join(f"{name}={yaml_text(value)}" for name, value in wanted.configuration)
    values = {"setting": wanted.setting, **dict(wanted.configuration)}
    try:
        published_search(method, variant, {**values, "encoder": wanted.encoder})
    except UserError as error:
        typer.echo(f"Left out: {wanted}: {error}", err=True)
        return []
    return [
        published_search(method, variant, {**values, "encoder": encoder}, overrides)
        for encoder in overrides.encoders or (wanted.encoder,)
    ]
