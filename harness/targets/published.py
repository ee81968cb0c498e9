"""A published table as the target of a sweep: the trials and the evaluations that it lacks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from harness.errors import UserError, suggest
from harness.plugin import registry
from harness.report.coverage import lacking
from harness.report.matching import ANY, Wanted, yaml_text
from harness.report.paper_cells import Comparer, PaperTable
from harness.report.papers import load_paper
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.searches import FINAL_SEEDS, FINAL_SUBSETS, PLAIN, published_search
from harness.sweeps.spaces.values import check_command_line
from harness.trials.trial import key

Notice = Callable[[str], None]
"""Prints or logs a sentence for the user"""


def compared_tables(
    paper: str, number: int, overrides: Overrides, trials: pa.Table
) -> list[PaperTable]:
    """The table with trials (columns `PAPER_COLUMNS`); with other encoders, one for each."""
    tables = load_paper(paper)
    return [
        Comparer(trials, encoder, values=overrides.values, plugins=tables.plugins).table(
            tables, tables.numbers[str(number)]
        )
        for encoder in overrides.encoders or (None,)
    ]


def table_searches(
    tables: Sequence[PaperTable], overrides: Overrides, notice: Notice
) -> list[Search]:
    """The searches of what a table still lacks: published values on the final seeds.

    Where the paper has searched a value and does not print it, dev chooses it first.

    Raises UserError for a method that is unknown or that no row runs, for values that the methods
    refuse, and for a limit of the configurations of a table that searches nothing. notice: hears of
    a row whose method cannot run here, which is left out.
    """
    if "encoder" in overrides.values:
        raise UserError(
            f"--set encoder={overrides.values['encoder']}: the encoder of a published table is "
            f"named with --encoder {overrides.values['encoder']}"
        )
    draws = len(overrides.seeds or FINAL_SEEDS), len(overrides.subsets or FINAL_SUBSETS)
    needed = {
        cell.wanted.method: cell.wanted.locator
        for table in tables
        for cell in table.cells
        if cell.wanted
    }
    # A paper of one's own has plugins that have a name in it alone.
    methods = {
        name if name in needed else registry.name_of(registry.locate(name)): needed.get(name, name)
        for name in overrides.methods
    }
    for name in methods.keys() - needed.keys():
        raise UserError(f'no row of this table runs the method "{name}"{suggest(name, needed)}')
    plugins = {
        name: methods.get(name, locator)
        for name, locator in sorted(needed.items())
        if not methods or name in methods
    }
    # Also where nothing is missing, so that the same command is always accepted.
    check_command_line(overrides.values, [registry.load(name) for name in plugins.values()])
    missing = [
        wanted for table in tables for wanted in lacking(table, *draws) if wanted.method in plugins
    ]
    searches: dict[str, Search] = {}  # on another encoder, several rows may ask for the same
    for wanted in missing:
        try:
            search = _search(plugins[wanted.method], wanted, overrides)
        except _LeftOut as left_out:
            notice(f"Left out: {wanted}: {left_out}")
        else:
            searches.setdefault(repr((search.method, search.config, search.rounds)), search)
    if overrides.configurations and missing and not any(each.rounds for each in searches.values()):
        raise UserError(
            "--configurations limits a search, and nothing of this table is searched: "
            "it has its published values"
        )
    return list(searches.values())


class _LeftOut(Exception):
    """Why a row cannot run here."""


def _search(method: str, wanted: Wanted, overrides: Overrides) -> Search:
    """The search of one row."""
    own = {name: value for name, value in wanted.configuration if value != ANY}
    variant = " ".join(f"{name}={yaml_text(value)}" for name, value in own.items())
    values = {"setting": wanted.setting, **own, "encoder": wanted.encoder}
    try:
        if {name for name, _ in wanted.configuration} - {*own, *overrides.values}:
            raise UserError(f"it needs {wanted.needs}")
        # What a row needs comes from the command line; other mistakes there concern all rows.
        published_search(method, variant, values, overrides if wanted.needs else PLAIN)
    except UserError as error:
        raise _LeftOut(str(error)) from None
    return published_search(method, variant, values, overrides, dict(wanted.searched))


def runnable(searches: list[Search], notice: Notice) -> list[Search]:
    """The searches of tables whose models and data are here; `notice` hears of each other one.

    Raises UserError when that is none of them.
    """
    runs: list[Search] = []
    refused: list[tuple[str, UserError]] = []
    for search in searches:
        trial = search.trials([search.fixed], "final")[0]
        try:
            key(trial)  # what is not here is said before torch is imported
            from harness.trials.run import check_runnable

            check_runnable(trial)
            runs.append(search)
        except UserError as error:
            refused.append((search.label, error))
    if refused and not runs:
        raise refused[0][1]
    for label, why in refused:
        notice(f"Left out: {label}: {why}")
    return runs


class Model(NamedTuple):
    """A model as `harness eval` takes it."""

    name: str
    pooling: str | None
    """Pooling of a plain encoder; None: of a method"""
    method: str | None = None
    """The path of the method of a trial, where a paper of one's own names it so"""


Suites = Mapping[str, bool]
"""The name of a suite -> whether its tests are lacking, and not its dev score alone"""


def lacking_suites(tables: Iterable[PaperTable]) -> dict[Model, Suites]:
    """The models in the cells of the tables -> the suites that have not measured them."""
    models: dict[Model, dict[str, bool]] = defaultdict(dict)
    for cell in (cell for table in tables for cell in table.cells):
        if cell.group is None or cell.metric is None:
            continue
        for trial in cell.unmeasured:
            group, path = cell.group, cell.wanted.path if cell.wanted else ""
            model = Model(trial.key, None, path or None)
            if trial.own is None and group.method == "pooling":
                model = Model(group.encoder, str(group.configuration["pooling"]))
            suites, name = models[model], cell.metric.suite
            suites[name] = suites.get(name, False) or cell.metric.split == "test"
    return dict(models)


def printed_suites(suites: Suites) -> list[str]:
    """The suites as they are printed."""
    return [name if tests else f"{name} (dev)" for name, tests in suites.items()]
