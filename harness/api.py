"""harness from Python: what the verbs do, for scripts and notebooks.

    import harness

    table = harness.sweep("quickstart", "simcse", store="results/trials")
    print(table)                         # a notebook shows it as HTML
    harness.run("simcse", encoder="tiny-bert", suite="graded").dev

Errors are those of the command line: `harness.errors.UserError` with one sentence. A store is a
folder or a bucket; None is that of the command line, `results/trials`.
"""

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.data.hub import check_model, model_folder
from harness.errors import UserError, counted, suggest
from harness.inputs import check_types
from harness.sweeps.spaces.overrides import whole_numbers
from harness.targets.options import SweepOptions
from harness.targets.stores import opened

# What follows is imported when it is needed, so that a wrong name is answered at once.
if TYPE_CHECKING:
    from harness.report import tables
    from harness.sweeps.plan import Plan
    from harness.sweeps.run import SweepResult
    from harness.sweeps.spaces.search import Search
    from harness.training.progress import Progress
    from harness.trials.record import Record
    from harness.trials.trial import Trial

T = TypeVar("T")
LINE = 180
"""Characters in a line of a table as text"""
_ONE_AT_A_TIME = threading.RLock()
"""Lock of trials and sweeps of this process"""


@dataclass(frozen=True)
class Table:
    """Tables of results, as `harness table` prints them."""

    sheets: "Sequence[tables.Table]"

    def render(self, format: str, width: int = LINE, *, bold: bool = False) -> bytes:
        """The tables as `terminal`, `markdown`, `latex`, `csv`, `json` or `parquet`.

        width: characters in a line for a terminal, in which the best scores may be bold. Raises
        UserError for another format or width.
        """
        check_types(Table.render.__annotations__, {"format": format, "width": width})
        if width < 1:
            raise UserError(f"width = {width}: write a whole number, at least 1")
        from harness.report.formats import rendered

        return rendered(self.sheets, format, width, bold=bold)

    def __str__(self) -> str:
        return self.render("terminal").decode()

    def _repr_html_(self) -> str:
        from harness.report.formats import html_table

        return "".join(map(html_table, self.sheets))


def searches(space: str | Path, *methods: str | Path, **options: Any) -> "list[Search]":
    """The searches of a search space.

    space: the name of a shipped one or the path of a YAML file. methods: names or paths of plugins;
    none: all of the space. options: what narrows the space, by the names of SweepOptions, such as
    `encoders`, `configurations`, `seeds`, `published` and `values`. Raises UserError for anything
    that is wrong in them.

    Example:
        >>> import harness.api
        >>> [search.label for search in harness.api.searches("quickstart", "simcse")]
        ['simcse unsup tiny-bert']
    """
    return _asked(space, methods, options).searches(warnings.warn)


def plan(
    space: str | Path | None = None,
    *methods: str | Path,
    device: str | None = None,
    gpus: int | None = None,
    papers: bool = False,
    **options: Any,
) -> "Plan":
    """The trials of a sweep, those that the store has, and an estimate of the cost of the rest.

    space, methods, options: as `sweep` takes them; a published table (`paper`, `table`) has no
    space. device: what they are priced for, such as `h100` or `cpu`; None: this machine. gpus: how
    many of it there are. papers: all tables of the papers at their full size, without a space.
    Nothing is run.

    Example:
        >>> import harness
        >>> harness.plan("quickstart", "pooling", store="no-store-yet").to_run
        4
    """
    check_types(plan.__annotations__, {"device": device, "gpus": gpus, "papers": papers})
    asked = _asked(space, methods, options)
    if papers:
        from harness.targets.paper_costs import paper_plans

        return dict(paper_plans(asked, opened(asked.store), device, gpus))["in all"]
    chosen = asked.searches(warnings.warn)
    from harness.sweeps.plan import plan_sweep

    return plan_sweep(
        chosen, opened(asked.store), device=device, gpus=gpus, cpus_per_trial=asked.cpus_per_trial
    )


def sweep(space: str | Path | None = None, *methods: str | Path, **options: Any) -> Table:
    """Search on dev, train the chosen configurations on the final seeds, and test them.

    Trials that the store has are not run again. space, methods: as `searches` takes them; a
    published table (`paper`, `table`) has no space, and further suites measure what it needs.
    options: those of `harness sweep`, by the names of SweepOptions, such as `store`, `local`,
    `cpus_per_trial` and what narrows the space. Returns the table of the store, or the published
    one with our numbers. Raises UserError for what is wrong, and where trials failed.

    Example: a notebook shows a bar, and then the table.
        table = harness.sweep("quickstart", "simcse", "pooling")
    """
    asked = _asked(space, methods, options)
    asked.check_encoders()
    chosen, store = asked.searches(warnings.warn), opened(asked.store)
    from harness.sweeps.budget import out_of_time
    from harness.sweeps.screen.terminal import Bar
    from harness.targets.execution import measure, run_searches
    from harness.targets.published import lacking_suites, runnable

    def run() -> "SweepResult":
        runs = runnable(chosen, warnings.warn) if asked.of_table else chosen
        bar = Bar()
        try:
            result = run_searches(runs, store, asked, bar, asked.name)
            if lacking := lacking_suites(asked.measured()):
                measure(lacking, store, asked, bar.notice, lambda _: None)
            return result
        finally:
            bar.close()

    result = _apart(run)
    for sentence in out_of_time(result.left_out):
        warnings.warn(sentence, stacklevel=2)
    if problems := [
        *(f"no configuration of {label} finished" for label in result.undecided),
        *([f"{counted(result.failed, 'trial')} failed"] if result.failed else ()),
    ]:
        raise UserError(f"{'; '.join(problems)}; harness.load({store.place!r}) has the reasons")
    if not asked.of_table:
        return table(asked.store)
    paper, number, values = asked.paper, asked.table, asked.table_values()
    tables = (
        table(asked.store, paper=paper, number=number, encoder=name, values=values)
        for name in asked.encoders or (None,)
    )
    return Table([sheet for made in tables for sheet in made.sheets])


def _asked(
    space: str | Path | None, methods: Sequence[Any], options: Mapping[str, Any]
) -> SweepOptions:
    """The options of a sweep. Raises UserError for a name or a value that is wrong."""
    check_types({"space": str | Path | None}, {"space": space})
    names = [field.name for field in fields(SweepOptions)]
    for name in options:
        if name not in names:
            raise UserError(f'there is no option "{name}"{suggest(name, names)}')
    named = None if space is None else str(space)
    return SweepOptions(space=named, methods=methods, **options)


def trial(method: str, values: Mapping[str, Any], seed: int) -> "Trial":
    """The trial of one configuration. It imports nothing heavy.

    values: hyperparameters, of which a text is read as its field says. Raises UserError for a
    method, a name or a value that is wrong.
    """
    # It refuses a seed that numpy cannot take, such as a text; one of numpy becomes Python's.
    (seed,) = whole_numbers([repr(seed) if isinstance(seed, str) else seed], "--seed")
    from harness.plugin import registry

    registry.locate(method)
    if "encoder" in values:
        check_model(str(values["encoder"]))
    plugin = registry.load(method)
    from harness.plugin.resolution import CORPUS, check_names, resolve

    check_names(plugin, values.keys() - {CORPUS})  # before what reads values is imported
    from harness.sweeps.spaces.values import read_values

    values = read_values(values, [plugin])
    config = resolve(plugin, values)
    for name in plugin.declare(config).models:
        model_folder(name)
    # A mistake in a name or a value is answered before what follows is imported.
    from harness.trials.trial import Trial

    return Trial(method, values, seed)


def run(
    method: str | Path,
    *,
    encoder: str | Path | None = None,
    seed: int = 0,
    store: Path | str | None = None,
    **values: Any,
) -> "Record":
    """Train one configuration in this process, score it on dev and test, and store it.

    method: name or path of a plugin. values: hyperparameters; the others have the paper's values.
    Returns the record, which the store may have already. Raises UserError for what is wrong.

    Example:
        >>> record = harness.run("pooling", encoder="tiny-bert", suite="graded", store=folder)
        >>> {name: round(score, 2) for name, score in record.dev.items()}
        {'graded-dev': 25.14}
    """
    check_types(run.__annotations__, {"method": method, "encoder": encoder, "store": store})
    asked = trial(str(method), {**values, **({"encoder": encoder} if encoder else {})}, seed)
    for name in asked.without_effect:
        warnings.warn(f"{name} changes nothing here: it is left out", stacklevel=2)
    results = opened(store)
    from tqdm.auto import tqdm

    from harness.targets.execution import run_trial, stored_record

    if (stored := stored_record(asked, results)) is not None:
        return stored

    def train() -> "Record":
        with tqdm(unit="step", desc=asked.label) as bar:

            def report(now: "Progress") -> None:
                bar.total = now.total_steps
                bar.update(now.step - bar.n)
                bar.set_postfix(loss=now.loss, dev=now.dev)

            return run_trial(asked, results, report)

    return _apart(train)


def table(
    store: Path | str | None = None,
    *,
    paper: str | Path | None = None,
    number: int | str | None = None,
    encoder: str | Path | None = None,
    values: Mapping[str, Any] | None = None,
    ask: bool = False,
    status: Callable[[str], None] = lambda _: None,
) -> Table:
    """The results of a store, alone or beside the published numbers of a paper.

    `number`: that of a table of the paper; None: all of them. `encoder`: the one on which our
    trials ran in the place of the paper's. values: hyperparameters that all of these have. ask:
    whether the models of the store are also asked for the examples of all tables of a paper, as
    they are for a single one; `status` hears of it. Raises UserError for what is wrong.

    Example:
        >>> print(harness.table(folder))  # doctest: +ELLIPSIS
        #  method   setting  encoder ...
    """
    arguments = {"store": store, "paper": paper, "number": number, "encoder": encoder}
    check_types(table.__annotations__, {**arguments, "values": values})
    encoder = str(encoder) if encoder else None
    if paper is None:
        if number is not None:
            raise UserError(f"--table {number} needs the name of its paper: --paper PAPER")
        if values:
            raise UserError("values need the name of a paper; harness.load has rows to filter")
        check_ours_on(encoder, paper)
        results = opened(store)
        from harness.report.measured_trials import TABLE_COLUMNS
        from harness.report.store_tables import store_tables

        return Table(store_tables(results.read(TABLE_COLUMNS), results.place))
    from harness.report.papers import load_paper, table_names

    loaded = load_paper(str(paper))  # a wrong name is answered before what follows is imported
    table_names(loaded, None if number is None else str(number))
    from harness.plugin import registry

    if values:
        from harness.sweeps.spaces.values import check_command_line

        plugins = [*registry.names(), *loaded.plugins.values()]
        check_command_line(values, map(registry.load, plugins))
    results = opened(store)
    from harness.report.matching import Commands
    from harness.report.paper_cells import Answers
    from harness.report.paper_tables import paper_tables
    from harness.report.quantities import PAPER_COLUMNS

    return Table(
        paper_tables(
            results.read(PAPER_COLUMNS),
            loaded,
            Commands(registry.sources(), results.place, encoder),
            None if number is None else str(number),
            answers=Answers(results, status) if ask or number is not None else None,
            values=values,
        )
    )


def check_ours_on(encoder: str | None, paper: str | Path | None) -> None:
    """Raises UserError for an encoder of our trials without a paper."""
    if encoder and not paper:
        raise UserError(f"--encoder {encoder} needs the name of a paper: --paper PAPER")


def _apart(call: Callable[[], T]) -> T:
    """Call a function; in a thread of its own where a loop runs in this one, as in a notebook.

    Threads wait for one another, because a process has one state of random numbers, and one output.
    """
    import asyncio  # not for a name that is refused

    with _ONE_AT_A_TIME:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return call()
        from harness.training.interruption import in_a_thread

        return in_a_thread(call)
