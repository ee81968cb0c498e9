"""Engines that run the trials of a sweep: Ray, or this process where that takes no longer."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self

from harness.sweep.cluster.machines import this_machine
from harness.sweep.cost import estimated_seconds
from harness.sweep.queue.trial_sources import TrialSource
from harness.sweep.screen.watcher import TrialWatcher
from harness.sweep.spaces.search import Search
from harness.sweep.workers.resources import Limits, Resources
from harness.trials.store import Store
from harness.trials.trial import Trial

START_SECONDS, TRIAL_SECONDS = 10.0, 1.0
"""Seconds of the start of Ray and of its workers, and of every trial beside its work"""


class Engine(Protocol):
    """Runs trials, and is a context for as long as it does."""

    sweep: str
    """Identifier of this run of a sweep"""

    @property
    def limits(self) -> Limits | None:
        """Limits of each trial; None: it has no process of its own that could be ended."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: Any) -> None: ...

    @property
    def slots(self) -> int:
        """Number of trials that run at a time."""

    def check_fits(self, trials: Iterable[Trial]) -> None:
        """Raises UserError for a trial that needs more memory than there is."""

    def run_from(
        self, source: TrialSource, watcher: TrialWatcher, *, only_parts: bool = False
    ) -> None:
        """Run every trial of a source once, until it is exhausted.

        Afterwards the store has all records, also those of failures. `only_parts`: make what the
        trials share, and run none of them.
        """

    def sent(self, trial: Trial) -> dict[str, Any]:
        """A trial as `each` takes it to where it runs."""

    def each(
        self, call: Callable[[dict[str, Any], str, float], Any], given: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function with each of these; yield (number, what it returned), as they end.

        The function also gets the address of the store and its number of CPU cores.
        """


def engine(
    store: Store,
    resources: Resources,
    limits: Limits,
    samples: Iterable[Trial],
    *,
    local: bool,
    announce: Callable[[str], None] | None = None,
) -> Engine:
    """The engine of a sweep.

    `samples`: a trial of each search, for which a cluster is checked before the first one. `local`:
    whether it is this process. `announce`: hears where Ray's dashboard is; None: the sweep is not
    shown there.
    """
    # Each of them takes seconds to import.
    if local:
        from harness.sweep.local_engine import LocalEngine

        return LocalEngine(store, resources.cpus)
    from harness.sweep.cluster.ray_engine import RayEngine

    return RayEngine(store, resources, limits, samples, announce)


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
        steps = search.declared.steps
        if steps is None or search.sampler is not None:
            return False
        each = estimated_seconds(search.declared, steps, tested=True)
        if each is None:
            return False
        trials = len(search.known_trials())
        if search.rounds:  # then come the other rounds, of which none is known, and the finals
            trials = trials * len(search.rounds) + len(search.trials([search.fixed], "final"))
        seconds += (each + TRIAL_SECONDS) * trials
    return seconds <= START_SECONDS
