"""The trials of the configurations that an Optuna sampler suggests."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import optuna

from harness.errors import UserError
from harness.sweep.axes import SamplerRange, Values
from harness.sweep.search import repeated
from harness.sweep.space import Repeats, Sampler
from harness.trials.trial import Trial, key

optuna.logging.set_verbosity(optuna.logging.WARNING)

SAMPLERS = {
    "tpe": optuna.samplers.TPESampler,
    "random": optuna.samplers.RandomSampler,
    "qmc": optuna.samplers.QMCSampler,
}


@dataclass(frozen=True)
class Sampling:
    """A sampler's ranges and budget, and what it already knows."""

    template: Trial
    """The trial that every suggestion completes"""
    repeats: Repeats
    """The seeds and subsets on which each configuration is run"""
    ranges: Mapping[str, SamplerRange | list[Any]]
    sampler: Sampler
    budget: int
    """Number of configurations still to try"""
    known: list[tuple[Values, float]]
    """Configurations that were tried before, with their mean dev scores"""


class Suggestions:
    """A source of trials: each configuration is one trial for each search seed and label subset.

    The sampler learns the mean of their dev scores, which is -inf when one of them failed.
    """

    def __init__(self, sampling: Sampling, at_a_time: int) -> None:
        """`at_a_time`: most configurations without a score; a sampler learns from the others."""
        self.sampling, self.at_a_time = sampling, at_a_time
        self._left = sampling.budget
        self._open: dict[int, dict[str, float | None]] = {}
        """Number of a configuration at the sampler -> key of each trial -> its dev score"""
        self._ranges = {name: _distribution(axis) for name, axis in sampling.ranges.items()}
        # A resumed search must not suggest the points of its first part again.
        seed = sampling.sampler.seed + len(sampling.known)
        self._study = optuna.create_study(
            direction="maximize", sampler=SAMPLERS[sampling.sampler.name](seed=seed)
        )
        for values, score in sampling.known:
            self._study.add_trial(
                optuna.trial.create_trial(
                    params=dict(values), distributions=self._ranges, value=score
                )
            )

    @property
    def exhausted(self) -> bool:
        """Whether the budget is spent and every configuration has a score or has failed."""
        return not self._left and not self._open

    def more(self) -> Mapping[str, Trial]:
        """The trials of one more configuration, if the sampler may suggest one now."""
        if not self._left or len(self._open) >= self.at_a_time:
            return {}
        self._left -= 1
        asked = self._study.ask(self._ranges)
        template = self.sampling.template
        values = {**template.configuration, **asked.params}
        try:
            trials = repeated(replace(template, configuration=values), self.sampling.repeats)
        except UserError:  # two values that do not go together count as a failure
            self._study.tell(asked.number, -math.inf)
            return {}
        found = {key(trial): trial for trial in trials}
        self._open[asked.number] = dict.fromkeys(found)
        return found

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """Tell the sampler the mean of a configuration, when all of its trials have ended."""
        dev = report.get("dev")
        for number, scores in list(self._open.items()):
            if key in scores:
                scores[key] = -math.inf if dev is None else dev
            known = [score for score in scores.values() if score is not None]
            if len(known) == len(scores):
                del self._open[number]
                self._study.tell(number, sum(known) / len(known))


def _distribution(axis: SamplerRange | list[Any]) -> optuna.distributions.BaseDistribution:
    """The distribution of Optuna for a range of a search space."""
    if isinstance(axis, list):
        return optuna.distributions.CategoricalDistribution(axis)
    numbers = (axis.low, axis.high, axis.step or 0.5)
    if axis.step is not None and all(float(number).is_integer() for number in numbers):
        low, high = int(axis.low), int(axis.high)
        return optuna.distributions.IntDistribution(low, high, step=int(axis.step))
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)
