"""The pool that a sweep gets: Ray, or this process where that takes no longer."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.sweeps.devices import estimated, this_cpu
from harness.sweeps.machines import Limits, Resources, this_machine
from harness.sweeps.pool import Pool
from harness.sweeps.screen.watcher import SweepWatcher, TrialWatcher
from harness.sweeps.spaces.search import Search
from harness.trials.lookup import MeasuredModel
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import Trial, commit, key

START_SECONDS = 10.0
"""Seconds of the start of Ray and of its workers"""


def pool(
    store: Store,
    resources: Resources,
    limits: Limits,
    samples: Iterable[Trial],
    *,
    local: bool,
    watcher: SweepWatcher,
    show: Callable[[TrialWatcher], None] | None = None,
) -> Pool:
    """The pool of a sweep.

    `samples`: a trial of each search, for which a cluster is checked before the first one. `local`:
    whether it is this process. `watcher`: hears where Ray's dashboard is, of a sweep that stops and
    of a job without a worker. `show`: gets what shows the trials in the dashboard; None: they are
    not shown there.
    """
    # Each of them takes seconds to import.
    if local:
        from harness.sweeps.local_pool import LocalPool

        return LocalPool(store, resources.cpus)
    from harness.sweeps.cluster.ray_pool import RayPool

    return RayPool(store, resources, limits, samples, watcher, show)


def runs_here(searches: Iterable[Search], resources: Resources, limits: Limits) -> bool:
    """Whether a sweep runs in this process unless its user says otherwise.

    It does so where one trial runs at a time, and where all of its trials together are estimated
    to take no longer than the start of Ray. Trials with limits, and those on GPUs or on a cluster,
    have processes of their own.
    """
    if os.environ.get("RAY_ADDRESS") or limits != Limits() or resources.gpus:
        return False
    if resources.gpus is None and this_machine().gpus:
        return False
    if resources.cpus <= (cores := os.cpu_count() or 1) < 2 * resources.cpus:
        return True
    if cores < resources.cpus:
        return False  # Ray says that no machine has as many
    seconds = 0.0
    for search in searches:
        trials = len(search.known_trials())
        each = estimated(search.known_trials()[0], this_cpu())
        if not each.known or search.sampler is not None:
            return False
        if search.rounds:  # then come the other rounds, of which none is known, and the finals
            trials = trials * len(search.rounds) + len(search.trials([search.fixed], "final"))
        seconds += each.middle * trials
    return seconds <= START_SECONDS


@dataclass(frozen=True)
class Asked:
    """A model, and the suites that are to measure it."""

    model: MeasuredModel
    suites: Mapping[str, bool]
    """The name of a suite -> whether its tests are wanted, and not its dev score alone"""


def measured(asked: Sequence[Asked], pool: Pool) -> Iterator[tuple[Asked, list[Record] | str]]:
    """Each model with the record of each suite, or with the reason why it could not be measured.

    They come as they end. The records are not in the store yet. A model has the limits of a trial.
    """
    # Ray reads its environment when it is first imported, which is what the pool has done.
    from harness.sweeps.workers.suite_worker import measure_model

    limits = {"sweep": pool.sweep, "limits": pool.limits}
    settings = [
        {"trial": each.model.trial, **limits, "key": key(each.model.trial),
         "name": each.model.name, "record": each.model.record, "suites": dict(each.suites)}
        for each in asked
    ]  # fmt: skip
    for number, records in pool.each(measure_model, settings):
        if not isinstance(records, str):
            # A cluster's worker has the source of the harness without the history.
            records = [replace(record, commit=commit()) for record in records]
        yield asked[number], records
