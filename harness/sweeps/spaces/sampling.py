"""How a search draws its configurations, and which of them it prunes, as a space says it."""

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from harness.errors import suggest
from harness.sweeps.spaces.axes import MOST, SpacePart

SEEDS = 2**32
"""Seeds and the numbers of label subsets are below this, which is the limit of numpy's seeds"""
ONE_OBJECTIVE = ("cma-es",)
"""Samplers that cannot search for a high dev score and a low cost at the same time"""


class Sampler(SpacePart):
    """An Optuna sampler with its budget: configurations, hours, or both."""

    name: Literal["tpe", "random", "cma-es", "qmc", "gp", "nsga-ii", "nsga-iii"] = "tpe"
    configurations: int | None = Field(None, ge=1, le=MOST)
    """At most so many configurations"""
    hours: float | None = Field(None, gt=0)
    """No further configuration when the trials of the search have run for so long, all together"""
    seed: int = Field(0, ge=0, lt=SEEDS)

    @model_validator(mode="after")
    def _has_a_budget(self) -> "Sampler":
        if self.configurations is None and self.hours is None:
            raise ValueError("a sampler needs a budget; write configurations, hours, or both")
        return self


class _Ranked(SpacePart):
    """A pruner that compares a configuration with those that have finished."""

    startup_configurations: int = Field(5, ge=1, le=MOST)
    """Nothing is pruned before so many configurations have finished"""
    first_evaluation: int = Field(1, ge=1, le=MOST)
    """Nothing is pruned before this evaluation on dev, counted from 1"""


class Median(_Ranked):
    """Prunes what is worse than the median of the finished configurations."""

    name: Literal["median"]


class Percentile(_Ranked):
    """Prunes what is not among the best of the finished configurations."""

    name: Literal["percentile"]
    keep_percent: float = Field(25, gt=0, lt=100)
    """The share that goes on, in percent"""


class Asha(SpacePart):
    """Asynchronous successive halving (Li et al., MLSys 2020).

    One in `reduction_factor` goes on after each rung. The rungs are at the evaluations
    `first_evaluation` times 1, `reduction_factor`, `reduction_factor` squared, and so on.
    """

    name: Literal["asha"]
    first_evaluation: int = Field(1, ge=1, le=MOST)
    reduction_factor: int = Field(4, ge=2, le=MOST)


class Wilcoxon(SpacePart):
    """Stops the seeds of a configuration that is worse than the best one, by a paired test."""

    name: Literal["wilcoxon"]
    p_threshold: float = Field(0.1, gt=0, lt=1)

    @property
    def least_seeds(self) -> int:
        """The least number of pairs with which the test can reach the threshold.

        Of n pairs, the smallest one-sided p is 2 to the power of -n.
        """
        return math.floor(-math.log2(self.p_threshold)) + 1


PRUNERS = ("median", "percentile", "asha", "wilcoxon")


def _named(given: Any) -> Any:
    found = {"name": given} if isinstance(given, str) else given
    name = found.get("name") if isinstance(found, dict) else None
    if name not in PRUNERS:
        raise ValueError(f'unknown pruner "{name}"{suggest(str(name), PRUNERS)}')
    return found


def _kind(given: Any) -> str:
    return str(given["name"] if isinstance(given, dict) else given.name)


Pruner = Annotated[
    Annotated[
        Annotated[Median, Tag("median")]
        | Annotated[Percentile, Tag("percentile")]
        | Annotated[Asha, Tag("asha")]
        | Annotated[Wilcoxon, Tag("wilcoxon")],
        Discriminator(_kind),
    ],
    BeforeValidator(_named),
]
"""`pruner: asha` is short for `pruner: {name: asha}`"""
