"""Running what is asked for: searches, one trial in this process, and further suites."""

import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.shared_cache import check_caches
from harness.sweeps.pool import Pool
from harness.sweeps.screen.watcher import SweepWatcher, TrialWatcher, everyone
from harness.sweeps.spaces.search import Search
from harness.targets.options import SweepOptions, seconds_of
from harness.targets.published import Model, Notice, Suites, printed_suites
from harness.training.progress import Progress
from harness.trials.lookup import MeasuredModel, model, provide_models
from harness.trials.output import kept_output
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import Trial, commit, key

if TYPE_CHECKING:
    from harness.sweeps.run import SweepResult


def run_searches(
    searches: list[Search],
    store: Store,
    options: SweepOptions,
    watcher: SweepWatcher,
    name: str,
    *,
    only_parts: bool = False,
) -> "SweepResult":
    """Run what the store lacks of the searches.

    name: that of the sweep, for a tracker. only_parts: make what the trials of the first rounds,
    and those of the final seeds that are known, share, and run none of them. Raises UserError as
    `Sweep.check`, and for a cache or a store that cannot be written.
    """
    if options.address is not None:
        os.environ["RAY_ADDRESS"] = options.address  # Ray reads it when it is imported
    check_caches()
    store.check_writable()
    from harness.sweeps.run import Sweep

    dashboard = options.dashboard
    if dashboard is None:
        dashboard = bool(os.environ.get("RAY_ADDRESS")) and not only_parts
    heard: list[TrialWatcher] = [watcher]
    with ExitStack() as stack:
        if options.track is not None:
            from harness.tracking.tracking import Tracking

            tracking = Tracking(options.track, store, name, watcher.notice)
            heard.append(stack.enter_context(tracking))

        def start() -> Pool:
            local = options.local
            if local is None:
                from harness.sweeps.local_pool import runs_here

                local = not dashboard and runs_here(searches, options.resources, options.limits)
            samples = [search.known_trials()[0] for search in sweep.everything]
            show = heard.append if dashboard else None
            return stack.enter_context(_pool(local, options, store, samples, watcher, show))

        budget = seconds_of(options.budget, "--budget")
        sweep = Sweep(searches, store, start, watcher, everyone(heard), budget)
        sweep.check(only_parts=only_parts)
        return sweep.serve(sweep.prepare() if only_parts else sweep.run())


def _pool(
    local: bool,
    options: SweepOptions,
    store: Store,
    samples: list[Trial],
    watcher: SweepWatcher,
    show: Callable[[TrialWatcher], None] | None = None,
) -> Pool:
    """The pool that runs trials: this process, or Ray, which describes the other arguments."""
    # Each of them takes seconds to import.
    if local:
        from harness.sweeps.local_pool import LocalPool

        return LocalPool(store, options.cpus_per_trial)
    from harness.sweeps.cluster.ray_pool import RayPool

    return RayPool(store, options.resources, options.limits, samples, watcher, show)


def run_trial(
    trial: Trial,
    store: Store,
    report: Callable[[Progress], None],
    *,
    began: Callable[[], None] = lambda: None,
    ended: Callable[[Record], None] = lambda _: None,
) -> Record:
    """The finished record of a trial in the store, or else that of running it in this process.

    report: hears of the steps. began, ended: hear of the training, and of its record before it is
    stored. Raises UserError for a trial that cannot run and for a store that cannot be written.
    """
    from harness.trials.run import attempt, check_runnable

    name = key(trial)
    # Before the claim, so that a refused one leaves nothing behind.
    check_runnable(trial)

    def train() -> Record:
        with store.logging(name) as log, kept_output(log):
            began()
            record = attempt(trial, report, store.weights(name), store.running(name))
        ended(record)
        return record

    return store.finished_or_run(name, trial.label, train)


def stored_record(trial: Trial, store: Store) -> Record | None:
    """The finished record of a trial; None where the trial is yet to be run, and can be declared.

    Raises UserError for a cache or a store that cannot be written, and for what the method of a
    trial to run declares wrongly. It imports no torch.
    """
    check_caches()
    store.check_writable()
    record = store.get(key(trial))
    if record is not None and record.finished:
        return record
    provide_models(store, trial)
    trial.declared.check()
    return None


def to_measure(suites: Iterable[Suites]) -> str:
    """The number of models that get each suite. `suites`: those of each model."""
    counts = Counter(chain.from_iterable(map(printed_suites, suites)))
    return ", ".join(f"{number} with {name}" for name, number in sorted(counts.items()))


def measure(
    lacking: dict[Model, Suites], store: Store, options: SweepOptions, notice: Notice, left: Notice
) -> bool:
    """Measure and store what is lacking; whether all models could be measured.

    The records of a model are stored as soon as it is measured. A suite without data here is named,
    and so is a model that cannot be loaded. notice: hears what is done. left: hears how much is
    left.
    """
    readable = _readable({name for suites in lacking.values() for name in suites}, notice)
    asked: list[tuple[MeasuredModel, Suites]] = []
    complete = True
    for (name, pooling, method), lacked in lacking.items():
        if not (here := {name: tests for name, tests in lacked.items() if name in readable}):
            continue
        try:
            asked.append((model(name, store, pooling=pooling, method=method), here))
        except UserError as error:
            notice(f"Not measured: {error}")
            complete = False
    if not asked:
        return complete
    trials = [one.trial for one, _ in asked]
    with _pool(bool(options.local), options, store, trials, SweepWatcher()) as running:
        # Ray reads its environment when it is first imported, which is what the pool has done.
        from harness.sweeps.workers.worker import measure_model

        counts = to_measure(suites for _, suites in asked)
        notice(f"\nTrials of the store to measure: {counts}, {running.slots} at a time")
        limits = {"sweep": running.sweep, "limits": running.limits}
        settings = [
            {"trial": one.trial, **limits, "key": key(one.trial), "name": one.name,
             "record": one.record, "suites": dict(suites)}
            for one, suites in asked
        ]  # fmt: skip
        answers = running.map_unordered(measure_model, settings)
        for number, (index, records) in enumerate(answers, 1):
            reasons = [records] if isinstance(records, str) else _stored(records, store)
            complete &= not reasons
            why = f", without {'; '.join(reasons)}" if reasons else ""
            one, suites = asked[index]
            shown = ", ".join(printed_suites(suites))
            notice(f"[{number}/{len(asked)}] {one.label}: measured with {shown}{why}")
            left(f"measuring: {len(asked) - number} left")
    return complete


def _readable(names: Iterable[str], notice: Notice) -> set[str]:
    """The suites whose data are here; of another one, the reason is told."""
    readable = set()
    for name in sorted(names):
        try:
            suite(name).digest()
            readable.add(name)
        except UserError as error:
            notice(f"Not measured with {name}: {error}")
    return readable


def _stored(records: list[Record], store: Store) -> list[str]:
    """Store the records; what they lack, and why."""
    for record in records:
        # A cluster's worker has the source of the harness without the history.
        store.write(replace(record, commit=commit()))
    return [str(record.reason) for record in records if record.reason or not record.finished]
