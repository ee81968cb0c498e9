"""harness from Python: what the verbs do, for scripts and notebooks.

    import harness

    table = harness.sweep("quickstart", "simcse", store="results/trials")
    print(table)                         # a notebook shows it as HTML
    harness.run("simcse", encoder="tiny-bert", suite="graded").dev

Errors are those of the command line: `harness.errors.UserError` with one sentence. A store is a
folder or a bucket; None is that of the command line, `results/trials`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import UserError
from harness.plugin import registry
from harness.report import tables
from harness.report.formats import html_table, rendered
from harness.report.measured_trials import TABLE_COLUMNS
from harness.shared_cache import check_caches
from harness.sweeps.machines import Limits, Resources
from harness.sweeps.plan import Plan, plan_sweep
from harness.sweeps.screen.watcher import RoundPlan
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search
from harness.training.interruption import in_a_thread
from harness.training.progress import Progress
from harness.trials.lookup import provide
from harness.trials.record import Record
from harness.trials.remote_store import opened
from harness.trials.store import Store
from harness.trials.trial import Trial, key

T = TypeVar("T")
LINE = 180
"""Characters in a line of a table as text"""


@dataclass(frozen=True)
class Table:
    """Tables of results, as `harness table` prints them."""

    sheets: Sequence[tables.Table]

    def render(self, format: str) -> bytes:
        """The tables as `terminal`, `markdown`, `latex`, `html`, `csv`, `json` or `parquet`."""
        return rendered(self.sheets, format, LINE)

    def __str__(self) -> str:
        return self.render("terminal").decode()

    def _repr_html_(self) -> str:
        return "".join(map(html_table, self.sheets))


class Bar:
    """The progress of a sweep as one bar, also in a notebook. It is a SweepWatcher."""

    def __init__(self) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(unit="trial")

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()

    def notice(self, sentence: str) -> None:
        """Print a sentence above the bar."""
        self._bar.write(sentence)

    def round(self, plan: RoundPlan) -> None:
        """A round begins."""

    def underway(self, titles: list[str], left: int | None) -> None:
        """These rounds go on now, and so many trials are left of them."""
        self._bar.total = None if left is None else self._bar.n + left
        self._bar.set_description("; ".join(titles))

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has chosen a configuration."""
        if dev is not None:
            self.notice(f"chosen for {search.label}: {search.metric} {dev:.2f}")

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has done more steps."""
        self._bar.set_postfix_str(f"{trial.label}: {report['step']}/{report['total_steps']}")

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has finished or failed."""
        self._bar.update()
        if report["status"] == "failed":
            self.notice(f"{trial.label}: FAILED: {report['reason']}")

    def postponed(self, trial: Trial, why: str) -> None:
        """The trial waits for another process."""

    def preparing(self, title: str) -> None:
        """A worker makes a part that trials share."""
        self._bar.set_postfix_str(title)

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        """A part has been made, or cannot be."""
        if reason is not None:
            self.notice(f"{title}: FAILED: {reason}")

    def stopping(self, running: int) -> None:
        """The sweep is interrupted."""
        self.notice(f"Stopping: {running} running trials save their state.")


def searches(
    space: str | Path,
    *methods: str,
    encoders: Sequence[str] = (),
    configurations: int | None = None,
    seeds: Sequence[int] = (),
    subsets: Sequence[int] = (),
    published: bool = False,
    values: Mapping[str, Any] | None = None,
) -> list[Search]:
    """The searches of a search space.

    space: the name of a shipped one or the path of a YAML file. methods: names or paths of plugins;
    none: all of the space. `configurations`: at most so many per round. `seeds` and `subsets`: the
    final ones. `published`: only the published values, without a search. values: hyperparameters
    that all trials have. Raises UserError for anything that is wrong in them.

    Example:
        >>> import harness.api
        >>> [found.label for found in harness.api.searches("quickstart", "simcse")]
        ['simcse unsup tiny-bert']
    """
    from harness.sweeps.spaces import overrides
    from harness.sweeps.spaces.named_spaces import space_file
    from harness.sweeps.spaces.space import load_space

    chosen = overrides.Overrides(
        methods=tuple(methods), encoders=tuple(encoders), values=dict(values or {}),
        configurations=configurations, seeds=tuple(seeds), subsets=tuple(subsets),
        published=published,
    )  # fmt: skip
    return overrides.searches(*load_space(space_file(str(space))), chosen)


def plan(space: str | Path, *methods: str, store: Path | str | None = None, **narrow: Any) -> Plan:
    """The trials of a sweep, those that the store has, and an estimate of the cost of the rest.

    The arguments are those of `searches`. Nothing is run.

    Example:
        >>> import harness
        >>> harness.plan("quickstart", "pooling", store="no-store-yet").to_run
        4
    """
    return plan_sweep(searches(space, *methods, **narrow), _store(store))


def sweep(
    space: str | Path,
    *methods: str,
    store: Path | str | None = None,
    cpus_per_trial: float = 1,
    local: bool | None = None,
    **narrow: Any,
) -> Table:
    """Search on dev, train the chosen configurations on the final seeds, and test them.

    Trials that the store has are not run again. `local`: whether trials run in this process and not
    on Ray; None: where that takes no longer. The other arguments are those of `searches`. Returns
    the table of the store. Raises UserError for what is wrong, and SweepFailed when trials failed.

    Example: a notebook shows a bar, and then the table.
        table = harness.sweep("quickstart", "simcse", "pooling")
    """
    from harness.sweeps.run import SweepResult, run_sweep

    found, results = searches(space, *methods, **narrow), _store(store)

    def run() -> SweepResult:
        bar = Bar()
        try:
            return run_sweep(found, results, Resources(cpus_per_trial), Limits(), bar, local=local)
        finally:
            bar.close()

    result = _apart(run)
    if problems := [
        *(f"no configuration of {label} finished" for label in result.undecided),
        *([f"{result.failed} trials failed"] if result.failed else ()),
    ]:
        raise UserError(f"{'; '.join(problems)}; harness.load({results.place!r}) has the reasons")
    return table(results.place)


def run(
    method: str,
    *,
    encoder: str | None = None,
    seed: int = 0,
    store: Path | str | None = None,
    **values: Any,
) -> Record:
    """Train one configuration in this process, score it on dev and test, and store it.

    method: name or path of a plugin. values: hyperparameters; the others have the paper's values.
    Returns the record, which the store may have already. Raises UserError for what is wrong.

    Example:
        >>> record = harness.run("pooling", encoder="tiny-bert", suite="graded", store=folder)
        >>> {name: round(score, 2) for name, score in record.dev.items()}
        {'graded-dev': 25.14}
    """
    from tqdm.auto import tqdm

    from harness.trials.output import kept_output
    from harness.trials.run import attempt, check_runnable

    trial = Trial(method, {**values, **({"encoder": encoder} if encoder else {})}, seed)
    found, name = _store(store), key(trial)
    check_caches()
    found.check_writable()
    if (stored := found.get(name)) and stored.finished:
        return stored
    provide(found, trial.config.encoder)
    trial.declared.check()
    check_runnable(trial)

    def train() -> Record:
        with tqdm(unit="step", desc=trial.label) as bar:

            def report(now: Progress) -> None:
                bar.total = now.total_steps
                bar.update(now.step - bar.n)
                bar.set_postfix(loss=now.loss, dev=now.dev)

            with found.logging(name) as log, kept_output(log):
                return attempt(trial, report, found.weights(name), found.running(name))

    return _apart(lambda: found.finished_or_run(name, trial.label, train))


def table(
    store: Path | str | None = None,
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    where: str | None = None,
    paper: str | None = None,
    number: int | None = None,
    encoder: str | None = None,
) -> Table:
    """The results of a store, alone or beside the published numbers of a paper.

    rows: methods, settings, encoders or hyperparameters, of which each value gets a row; columns:
    metrics; `where`: a condition in SQL. `number`: that of a table of the paper; None: all of them.
    `encoder`: the one on which our trials ran in the place of the paper's.

    Example:
        >>> print(harness.table(folder))  # doctest: +ELLIPSIS
        #  method   setting  encoder ...
    """
    results = _store(store)
    if paper is not None:
        if rows or columns or where:
            raise UserError("rows, columns and where make a table of your own; leave paper out")
        from harness.report.matching import Commands
        from harness.report.paper_tables import paper_tables
        from harness.report.quantities import PAPER_COLUMNS

        commands = Commands(registry.names(), results.place)
        shown = None if number is None else str(number)
        reading = results.read(PAPER_COLUMNS)
        return Table(paper_tables(reading, paper, commands, shown, encoder=encoder))
    reading = results.read(TABLE_COLUMNS)
    if rows or columns:
        from harness.report.store_tables import own_table

        return Table([own_table(reading, results.place, tuple(rows), tuple(columns), where)])
    from harness.report.store_tables import store_tables

    return Table(store_tables(reading, results.place, where))


def _store(place: Path | str | None) -> Store:
    return opened(None if place is None else str(place))


def _apart(call: Callable[[], T]) -> T:
    """Call a function; in a thread of its own where a loop runs in this one, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    return in_a_thread(call)
