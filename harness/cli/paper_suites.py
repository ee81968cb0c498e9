"""Measures the trials of a published table with the suites that they lack."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

from rich.console import Console

from harness.cli.output import Screen
from harness.cli.sweeping import Means
from harness.cli.targets import SweepOptions
from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.report.paper_cells import PaperTable
from harness.sweeps.pools import Asked, measured, pool
from harness.trials.lookup import model
from harness.trials.record import Record
from harness.trials.store import Store

_Model = tuple[str, str | None]
"""The name of a model as `harness eval` takes it, and the pooling of a plain encoder"""
_Suites = dict[str, bool]
"""The name of a suite -> whether its tests are lacking, and not its dev score alone"""


def lacking_suites(tables: Iterable[PaperTable]) -> dict[_Model, _Suites]:
    """The models in the cells of the tables -> the suites that have not measured them."""
    found: dict[_Model, _Suites] = defaultdict(dict)
    for each in (each for table in tables for each in table.cells):
        if each.group is None or each.metric is None:
            continue
        for trial in each.unmeasured:
            model: _Model = (trial.key, None)
            if trial.own is None and each.group.method == "pooling":
                model = (each.group.encoder, str(each.group.configuration["pooling"]))
            suites, name = found[model], each.metric.suite
            suites[name] = suites.get(name, False) or each.metric.split == "test"
    return found


def announce(chosen: SweepOptions) -> None:
    """Print how many trials of the store get further suites for a published table, if any."""
    lacking = lacking_suites(chosen.measured())
    if lacking:
        Screen().print(_to_measure(lacking.values()), soft_wrap=True)


def _to_measure(suites: Iterable[Mapping[str, bool]]) -> str:
    """How many models get each suite. `suites`: those of each model."""
    counts = Counter(chain.from_iterable(map(printed_suites, suites)))
    listed = ", ".join(f"{number} with {suite}" for suite, number in sorted(counts.items()))
    return f"Trials of the store to measure: {listed}"


def printed_suites(suites: Mapping[str, bool]) -> list[str]:
    """The suites as they are printed."""
    return [name if tests else f"{name} (dev)" for name, tests in suites.items()]


def measure(lacking: dict[_Model, _Suites], store: Store, means: Means, console: Console) -> bool:
    """Measure and store what is lacking; whether all models could be measured.

    A suite without data here is named, and so is a model that cannot be loaded.
    """
    if not lacking:
        return True

    readable = _readable({suite for names in lacking.values() for suite in names}, console)
    asked: list[Asked] = []
    complete = True
    for (name, pooling), names in lacking.items():
        if not (suites := {each: tests for each, tests in names.items() if each in readable}):
            continue
        try:
            asked.append(Asked(model(name, store, pooling=pooling, method=None), suites))
        except UserError as error:
            console.print(f"Not measured: {error}", soft_wrap=True)
            complete = False
    return (not asked or _measured(asked, store, means, console)) and complete


def _readable(names: Iterable[str], console: Console) -> set[str]:
    """The suites whose data are here; of another one, the reason is printed."""
    found = set()
    for name in sorted(names):
        try:
            suite(name).digest()
            found.add(name)
        except UserError as error:
            console.print(f"Not measured with {name}: {error}", soft_wrap=True)
    return found


def _measured(asked: list[Asked], store: Store, means: Means, console: Console) -> bool:
    """Measure the models on workers, and store the records of each as soon as it is measured."""
    trials, complete = [each.model.trial for each in asked], True
    resources, limits, local = means.resources(), means.limits(), bool(means.local)
    with pool(store, resources, limits, trials, local=local) as running:
        counts = _to_measure(each.suites for each in asked)
        console.print(f"\n{counts}, {running.slots} at a time", soft_wrap=True)
        with console.status("measuring") as status:
            for number, (each, found) in enumerate(measured(asked, running), 1):
                reasons = [found] if isinstance(found, str) else _stored(found, store)
                complete &= not reasons
                why = f", without {'; '.join(reasons)}" if reasons else ""
                suites = ", ".join(printed_suites(each.suites))
                line = f"[{number}/{len(asked)}] {each.model.label}: measured with {suites}{why}"
                console.print(line, soft_wrap=True)
                status.update(f"measuring: {len(asked) - number} left")
    return complete


def _stored(records: list[Record], store: Store) -> list[str]:
    """Store the records; what they lack, and why."""
    for record in records:
        store.write(record)
    return [str(record.reason) for record in records if record.reason or not record.finished]
