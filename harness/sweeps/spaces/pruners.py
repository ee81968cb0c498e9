"""The pruners of a search space: rules that end poor configurations early."""

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from harness.errors import suggest
from harness.sweeps.spaces.axes import MOST, SpacePart


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


class Hyperband(SpacePart):
    """Several ASHAs side by side, each with a later first rung (Li et al., JMLR 2018, section 3).

    The number of a configuration decides in which of them it competes.
    """

    name: Literal["hyperband"]
    last_evaluation: int = Field(ge=1, le=MOST)
    """Evaluations of a training that is not pruned, R in the paper; decides how many ASHAs"""
    first_evaluation: int = Field(1, ge=1, le=MOST)
    reduction_factor: int = Field(3, ge=2, le=MOST)


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


PRUNERS = ("median", "percentile", "asha", "hyperband", "wilcoxon")


def _named(given: Any) -> Any:
    pruner = given if isinstance(given, dict) else {"name": given}
    name = pruner.get("name")
    if name not in PRUNERS:
        raise ValueError(f'unknown pruner "{name}"{suggest(str(name), PRUNERS)}')
    return pruner


Pruner = Annotated[
    Annotated[Median, Tag("median")]
    | Annotated[Percentile, Tag("percentile")]
    | Annotated[Asha, Tag("asha")]
    | Annotated[Hyperband, Tag("hyperband")]
    | Annotated[Wilcoxon, Tag("wilcoxon")],
    Discriminator(lambda pruner: pruner["name"] if isinstance(pruner, dict) else pruner.name),
    BeforeValidator(_named),
]
"""`pruner: asha` is short for `pruner: {name: asha}`"""
