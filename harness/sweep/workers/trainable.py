"""The class of the workers of a sweep, as Tune and Ray's dashboard see it."""

from collections.abc import Callable
from typing import Any

import ray
from ray import tune
from ray.tune.trainable import wrap_function

_Method = Callable[..., Any]
_unlisted: Callable[[_Method], _Method] = ray.method(enable_task_events=False)


def trial_worker(
    run: Callable[[dict[str, Any]], None],
    resources: Callable[[dict[str, Any]], tune.PlacementGroupFactory],
) -> Any:
    """A class for Tune whose objects run trials with `run`.

    `resources`: what a job occupies, given its settings. A worker has many calls per trial. The
    dashboard does not list them, so that the trials themselves (`harness.sweep.cluster.dashboard`)
    are what it lists.
    """

    # Ray has no types for what `wrap_function` gives, so a type checker takes it for anything.
    class TrialWorker(wrap_function(run, name="trial worker")):  # type: ignore[misc]
        @classmethod
        def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
            return resources(config)

        @_unlisted
        def train(self) -> Any:
            return super().train()

        @_unlisted
        def reset(self, *settings: Any, **named: Any) -> Any:
            return super().reset(*settings, **named)

        @_unlisted
        def get_auto_filled_metrics(self, *settings: Any, **named: Any) -> Any:
            return super().get_auto_filled_metrics(*settings, **named)

        @_unlisted
        def stop(self) -> Any:
            return super().stop()

    TrialWorker.__qualname__ = "TrialWorker"  # the dashboard prints it
    return TrialWorker
