"""`harness compare`: which of two systems is better, and how sure that is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from harness.cli import completion, options
from harness.cli.eval import MethodOption, PoolingOption, check_model
from harness.cli.output import Screen
from harness.cli.progress import working
from harness.errors import UserError
from harness.inputs import kind_of
from harness.shared_cache import check_caches
from harness.steps import prefixed
from harness.targets.stores import opened
from harness.trials.store_folders import DEFAULT_STORE

if TYPE_CHECKING:
    from harness.report.comparison import System
    from harness.report.groups import Group
    from harness.report.measured_trials import SuiteOfData
    from harness.report.row_names import NamedRow
    from harness.trials.store import Store

SystemArgument = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        help="A row of `harness table` by its number, a method with rows in the store, the key of "
        "a trial, the Hub name of a model, or a folder.",
        autocompletion=completion.shown,
        show_default=False,
    ),
]


def compare(
    a: SystemArgument,
    b: SystemArgument,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite",
            help="The suite whose scores are compared. Default: that of the rows; for models "
            "outside of the store, sts. These need sts, graded (the pairs that come with harness), "
            "a table of scored pairs, such as pairs.csv, or a folder with queries and documents.",
        ),
    ] = None,
    pooling: PoolingOption = None,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Say which of two systems is better, by how much, and how sure that is.

    The difference has an interval and a p-value over seeds, over test pairs or queries, and over
    both.

    Example: harness compare 1 4
    """
    if not _may_have_rows(store):  # so a wrong name is answered before a store is read
        check_model(a)
        check_model(b)
    results, console = opened(store), Screen()
    if not (pooling or method):
        from harness.report.groups import comparable_groups
        from harness.report.measured_trials import TABLE_COLUMNS
        from harness.report.row_names import is_key_of, rows_named

        groups = comparable_groups(results.read(TABLE_COLUMNS).table)
        measured, data = _suite_of(suite) if groups and suite else (suite, "")
        rows = rows_named((a, b), groups, measured)  # None where one of the two names no row
        for at, (one, two) in enumerate(rows or []):
            console.print("\n" * (at > 0), end="")
            named = ((a, one[1].trials[0]), (b, two[1].trials[0]))
            trials = all(is_key_of(word, trial.key) and trial.own for word, trial in named)
            if not _compare_rows(one, two, measured, data, results, console, may_ask=trials):
                break
        else:
            if rows:
                return
    _print(_models(a, b, suite or "sts", pooling, method, results), ["", ""], results, console)


def _suite_of(suite: str) -> "SuiteOfData":
    """The name and data in the records of a suite, which may be named by the path of its files."""
    from harness.evaluation.suites import has_files
    from harness.evaluation.suites import suite as suite_called
    from harness.report.measured_trials import suite_of_data

    if not has_files(suite):
        return suite, ""
    measured = suite_called(suite)
    return suite_of_data(measured.name, measured.dumped_card())


def _may_have_rows(store: str | None) -> bool:
    """Whether there may be trials in the store; nothing of it is read."""
    location = store or DEFAULT_STORE
    return "://" in str(location) or kind_of(Path(location)) != "nothing"


def _compare_rows(
    one: "NamedRow",
    two: "NamedRow",
    suite: str | None,
    data: str,
    store: "Store",
    console: Screen,
    *,
    may_ask: bool,
) -> bool:
    """Print the comparison of two rows; False where their models must be asked instead.

    data: the digest of the suite's data, which go before other data of this name. may_ask: whether
    they are two trials, whose models can be asked for what is not kept.
    """
    from harness.evaluation.catalogue import suite_option
    from harness.report.comparison import shared_metrics, stored_systems

    groups = (one[1], two[1])
    measured = [{(str(part.suite), part.data): part for part in own.parts} for own in groups]
    asked = [[key for key in own if suite in (None, key[0])] for own in measured]
    shared = [key for key in asked[0] if key in asked[1]]
    chosen = min(shared, key=lambda key: key[1] != data, default=None)
    if chosen is None:
        names, others = (dict.fromkeys(name for name, _ in keys) for keys in asked)
        if alike := next((name for name in names if name in others), None):
            raise UserError(
                f"{one[0]} and {two[0]} were measured on other data, both called {alike}; measure "
                f"them on the same: harness eval MODEL --suite {suite_option(alike)}"
            )
        if may_ask:
            return False
        have = "; ".join(
            f"{name} has {', '.join(dict.fromkeys(of for of, _ in own))}"
            for (name, _), own in zip((one, two), measured, strict=True)
        )
        raise UserError(
            f"{one[0]} and {two[0]} have no scores of {suite or 'one suite'} in common ({have}); "
            f"`harness eval KEY --suite SUITE` measures a trial"
        )
    for name, group in (one, two):
        if not group.current:
            raise UserError(
                f"{name} ({group.setting}, {group.encoder}) was measured by protocol "
                f"{group.provenance['protocol']}, whose scores are not compared with those of "
                f"today; run it again"
            )
    parts = [own[chosen] for own in measured]
    systems = stored_systems([(one[0], parts[0]), (two[0], parts[1])], store.kept_pairs)
    if may_ask and any(system.lacking for system in systems):
        return False
    if not shared_metrics(*systems):
        raise UserError(f"{one[0]} and {two[0]} have no test score of {chosen[0]} in common")
    _print(systems, [_trials(part) for part in parts], store, console)
    return True


def _trials(group: "Group") -> str:
    """The number of trials of a row, as text."""
    if not group.trials[0].trained:
        return ", which trains nothing"
    seeds = "1 seed" if len(group.trials) == 1 else f"{group.n} seeds"
    return f", {seeds}, {group.encoder}, {group.setting}"


def _models(
    a: str, b: str, suite: str, pooling: str | None, method: str | None, store: "Store"
) -> "list[System]":
    """The two models, run on the pairs of a suite."""
    from harness.evaluation.kept import check_pairs, no_pairs, resampled_scores, scored_pairs
    from harness.evaluation.kept import test_scores as scores_of
    from harness.evaluation.mteb_names import MTEB
    from harness.evaluation.suites import check_name
    from harness.evaluation.suites import suite as suite_called
    from harness.report.comparison import System, items_named
    from harness.report.difference import Scored
    from harness.trials.lookup import named

    check_caches()
    check_name(suite)
    if suite.startswith(MTEB):
        raise no_pairs(suite)  # before mteb is imported
    for each in (a, b):
        check_model(each)
    resolved = [named(each, store, pooling=pooling, method=method) for each in (a, b)]
    with working(f"comparing {a} and {b} on {suite}") as work:
        measured = suite_called(suite)
        check_pairs(measured)  # it raises before models are loaded or trained
        models = [each() for each in resolved]
        work("loading torch and the models")
        from harness.trials.evaluate import Measurement

        pairs = [
            scored_pairs(measured, Measurement(each, store, steps=prefixed(name, work)).embed)
            for name, each in zip("AB", models, strict=True)
        ]
        work("resampling the pairs of the tests")
        drawn = resampled_scores(measured.card, pairs)
        systems = []
        for at, (model, own) in enumerate(zip(models, pairs, strict=True)):
            trained = bool(model.trial.declared.stages)
            scored = {
                metric: Scored(
                    (value,),
                    ((0, model.trial.seed),),
                    trained,
                    None if (draws := drawn.get(metric)) is None else draws[[at]],
                    items_named(measured.card),
                )
                for metric, value in scores_of(measured, own).items()
            }
            systems.append(System(model.label, measured.card, scored))
    return systems


def _print(
    systems: "Sequence[System]", about: Sequence[str], store: "Store", console: Screen
) -> None:
    """Print a table with a line for each test, then what is known of the main one, in words."""
    from harness.evaluation.bootstrap import RESAMPLES
    from harness.report.cells import p_text
    from harness.report.comparison import Compared, main_metric, shared_metrics

    first, second = systems
    table = Table("test", box=box.SIMPLE_HEAD)
    for title in ("A", "B", "A - B", "95 % interval", "p"):
        table.add_column(title, justify="right")
    for metric in shared_metrics(first, second):
        compared = Compared(first, second, metric)
        places, sure = f".{compared.decimals}f", compared.headline
        interval = f"{sure.low:+{places}} to {sure.high:+{places}}" if sure else "not known"
        p = p_text(sure.p_value) if sure else ""
        scores = [format(side.mean, places) for side in compared.sides]
        difference = f"{compared.value:+{places}}" if compared.defined else ""
        table.add_row(metric, *scores, difference, interval, p)
    for name, system, more in zip("AB", systems, about, strict=True):
        console.say(f"{name}: {system.name}{more}")
    console.print(table)
    main = Compared(first, second, str(main_metric(first, second)))
    for line in main.lines(store.place):
        console.say(line)
    console.say(f"\n{main.verdict()}")
    if main.headline and main.pairs:
        console.say(
            f"{first.card.units}; p: two-sided, for no difference; {RESAMPLES} resamples of the "
            f"test {main.items}, the same for all models."
        )
