"""Which waiting trial gets a worker that has become free."""

from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler


class NextInLine(FIFOScheduler):  # type: ignore[misc]
    """A free worker takes the first trial for which no other worker is starting.

    Tune's own order gives it the first trial of all. If a worker starts for that one, then Tune
    ends this worker and starts another for the next trial; a worker needs seconds for its imports,
    so a sweep of short trials would have one worker, and would start and end others all the time.
    """

    def __init__(self, slots: int) -> None:
        """`slots`: how many trials run at a time."""
        super().__init__()
        self.slots = slots

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """The trial that runs next; None when none waits."""
        trials = tune_controller.get_trials()
        waiting = [trial for trial in trials if trial.status == Trial.PENDING]
        running = sum(trial.status == Trial.RUNNING for trial in trials)
        # All slots but those of running trials and of the free worker may have a starting one.
        starting = max(0, self.slots - running - 1)
        return waiting[min(starting, len(waiting) - 1)] if waiting else None
