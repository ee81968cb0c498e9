"""A published table as the target of a sweep: the trials and the evaluations that it lacks."""

from harness.cli import options
from harness.cli.output import echo
from harness.errors import UserError, suggest
from harness.plugin import registry
from harness.report.coverage import lacking
from harness.report.matching import ANY, Wanted, yaml_text
from harness.report.paper_cells import Comparer, PaperTable
from harness.report.published import load_paper
from harness.report.quantities import PAPER_COLUMNS
from harness.sweeps.spaces.overrides import (
    FINAL_SEEDS,
    FINAL_SUBSETS,
    PLAIN,
    Overrides,
    published_search,
)
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.values import check_command_line


def check_fillable(paper: str, number: int) -> None:
    """Raise UserError for an unknown paper or table, and for a table that trials cannot fill."""
    found = load_paper(paper)
    if str(number) not in found.numbers:
        raise UserError(
            f"there is nothing to run for Table {number} of {paper}"
            f"{suggest(str(number), found.numbers)}"
        )
    if found.tables[found.numbers[str(number)]].kind == "hyperparameters":
        raise UserError(
            f"there is nothing to run for Table {number} of {paper}: it has hyperparameters, which "
            f"`harness table --paper {paper} --table {number}` compares with our defaults"
        )


def compared_tables(
    paper: str, number: int, overrides: Overrides, store: str | None
) -> list[PaperTable]:
    """The table with the store's trials; with other encoders, one for each of them."""
    reading = options.opened(store).read(PAPER_COLUMNS)
    found = load_paper(paper)
    return [
        Comparer(reading.table, encoder, values=overrides.values).table(
            found, found.numbers[str(number)]
        )
        for encoder in overrides.encoders or (None,)
    ]


def table_searches(
    paper: str, number: int, overrides: Overrides, store: str | None
) -> list[Search]:
    """The searches of what a table still lacks: published values on the final seeds.

    Raises UserError for an unknown method, and for values that the methods refuse. A row whose
    method cannot run here is named and left out.
    """
    if "encoder" in overrides.values:
        raise UserError(
            f"--set encoder={overrides.values['encoder']}: the encoder of a published table is "
            f"named with --encoder {overrides.values['encoder']}"
        )
    methods = {registry.name_of(registry.locate(name)): name for name in overrides.methods}
    draws = len(overrides.seeds or FINAL_SEEDS), len(overrides.subsets or FINAL_SUBSETS)
    tables = compared_tables(paper, number, overrides, store)
    needed = {each.wanted.method for table in tables for each in table.cells if each.wanted}
    plugins = {
        name: methods.get(name, name) for name in sorted(needed) if not methods or name in methods
    }
    # Also where nothing is missing, so that the same command is always accepted.
    check_command_line(overrides.values, [registry.load(each) for each in plugins.values()])
    missing = [
        wanted for table in tables for wanted in lacking(table, *draws) if wanted.method in plugins
    ]
    searches: dict[str, Search] = {}  # on another encoder, several rows may ask for the same
    for wanted in missing:
        if search := _search(plugins[wanted.method], wanted, overrides):
            searches.setdefault(repr((search.method, search.config)), search)
    return list(searches.values())


def runnable(searches: list[Search]) -> list[Search]:
    """The searches of tables whose models and data are here; each other one is named.

    Raises UserError when that is none of them.
    """
    from harness.trials.run import check_runnable  # with torch

    found: list[Search] = []
    refused: list[tuple[str, UserError]] = []
    for search in searches:
        try:
            check_runnable(search.trials([search.fixed], "final")[0])
            found.append(search)
        except UserError as error:
            refused.append((search.label, error))
    if refused and not found:
        raise refused[0][1]
    for label, why in refused:
        echo(f"Left out: {label}: {why}", err=True)
    return found


def _search(method: str, wanted: Wanted, overrides: Overrides) -> Search | None:
    """The search of one row; None, after a line about it, where it cannot run here."""
    given = {name: value for name, value in wanted.configuration if value != ANY}
    variant = " ".join(f"{name}={yaml_text(value)}" for name, value in given.items())
    values = {"setting": wanted.setting, **given, "encoder": wanted.encoder}
    try:
        if {name for name, _ in wanted.configuration} - {*given, *overrides.values}:
            raise UserError(f"it needs {wanted.needs}")
        # What a row needs comes from the command line; other mistakes there concern all rows.
        published_search(method, variant, values, overrides if wanted.needs else PLAIN)
    except UserError as error:
        echo(f"Left out: {wanted}: {error}", err=True)
        return None
    return published_search(method, variant, values, overrides)
