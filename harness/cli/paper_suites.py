"""Measures the trials of a published table with the suites that they lack."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.cli.targets import SweepOptions
    from harness.evaluation.suites import Suite
    from harness.report.compared import ComparedTable
    from harness.trials.lookup import MeasuredModel
    from harness.trials.store import Store

_Model = tuple[str, str | None]
"""The name of a model as `harness eval` takes it, and the pooling of a plain encoder"""


def lacking_suites(tables: "Iterable[ComparedTable]") -> dict[_Model, list[str]]:
    """The models in the cells of the tables -> the suites that have not measured them."""
    found: dict[_Model, dict[str, None]] = defaultdict(dict)
    for each in (each for table in tables for each in table.numbers):
        if each.found is None or each.metric is None:
            continue
        for trial in each.unmeasured:
            model: _Model = (trial.key, None)
            if trial.own is None and each.found.group.method == "pooling":
                group = each.found.group
                model = (group.encoder, str(group.configuration["pooling"]))
            found[model][each.metric.suite] = None
    return {model: list(suites) for model, suites in found.items()}


def announce(chosen: "SweepOptions") -> None:
    """Print how many trials of the store get further suites for a published table, if any."""
    from rich.console import Console

    lacking = lacking_suites(chosen.measured())
    counts = Counter(suite for suites in lacking.values() for suite in suites)
    if counts:
        suites = ", ".join(f"{number} with {suite}" for suite, number in sorted(counts.items()))
        Console(highlight=False).print(f"Trials of the store to measure: {suites}", soft_wrap=True)


def measure(lacking: dict[_Model, list[str]], store: "Store", console: "Console") -> bool:
    """Measure and store what is lacking; whether everything could be measured.

    What has no data here, or what cannot be loaded, is named.
    """
    from harness.trials.lookup import model

    suites = _readable({suite for names in lacking.values() for suite in names}, console)
    complete = True
    for (name, pooling), names in lacking.items():
        chosen = [suites[each] for each in names if each in suites]
        if not chosen:
            continue
        try:
            found = model(name, store, pooling=pooling, method=None)
            complete &= _measured(found, chosen, store, console)
        except UserError as error:
            console.print(f"Not measured: {error}", soft_wrap=True, markup=False)
            complete = False
    return complete


def _readable(names: Iterable[str], console: "Console") -> "dict[str, Suite]":
    """The suites whose data are here, by name; of another one, the reason is printed."""
    from harness.evaluation.suites import suite

    found = {}
    for name in sorted(names):
        try:
            suite(name).digest()
            found[name] = suite(name)
        except UserError as error:
            console.print(f"Not measured with {name}: {error}", soft_wrap=True, markup=False)
    return found


def _measured(
    model: "MeasuredModel", suites: "list[Suite]", store: "Store", console: "Console"
) -> bool:
    from harness.trials.evaluate import Measurement, evaluations

    complete = True
    with console.status("loading") as status:
        measurement = Measurement(model, store, status=status.update)
        for suite, record in zip(suites, evaluations(measurement, suites), strict=True):
            store.write(record)
            complete &= record.finished
            why = f", without {record.reason}" if record.reason else ""
            line = f"{model.label}: measured with {suite.name}{why}"
            console.print(line, soft_wrap=True, markup=False)
    return complete
