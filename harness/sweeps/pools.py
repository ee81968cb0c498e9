"""Sweeps that this process runs without Ray, and models that a pool measures."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.sweeps.devices import estimated, this_cpu
from harness.sweeps.machines import Limits, Resources, this_machine
from harness.sweeps.pool import Pool
from harness.sweeps.spaces.search import Search
from harness.trials.lookup import MeasuredModel
from harness.trials.record import Record
from harness.trials.trial import commit, key

START_SECONDS = 10.0
"""Seconds of the start of Ray and of its workers"""


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
        estimate = estimated(search.known_trials()[0], this_cpu())
        if not estimate.known or search.sampler is not None:
            return False
        if search.rounds:  # then come the other rounds, of which none is known, and the finals
            trials = trials * len(search.rounds) + len(search.trials([search.fixed], "final"))
        seconds += estimate.middle * trials
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
