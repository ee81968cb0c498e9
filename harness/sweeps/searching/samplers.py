"""Optuna's objects for what a search space names: samplers, pruners and distributions."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.pruners import (
    BasePruner,
    NopPruner,
    PercentilePruner,
    SuccessiveHalvingPruner,
    WilcoxonPruner,
)
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    NSGAIIISampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)

from harness.files import digest_of
from harness.sweeps.spaces.axes import SamplerRange, SamplerValues, WholeRange
from harness.sweeps.spaces.space import Asha, Median, Pruner, Sampler, Wilcoxon

optuna.logging.set_verbosity(optuna.logging.WARNING)
# These are in Optuna to stay, and say on every start that they are new.
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

# A range that applies only sometimes is drawn at random by the samplers that cannot model it.
SAMPLERS: Mapping[str, Callable[..., BaseSampler]] = {
    "tpe": TPESampler,
    "random": RandomSampler,
    "cma-es": partial(CmaEsSampler, warn_independent_sampling=False),
    "qmc": partial(QMCSampler, warn_independent_sampling=False),
    "gp": partial(GPSampler, warn_independent_sampling=False),
    "nsga-ii": NSGAIISampler,
    "nsga-iii": NSGAIIISampler,
}


SEED_DIGITS = 8
"""Hexadecimal digits of a sampler's seed, which has to be below 2**32"""


def sampler_of(sampler: Sampler, search: str, number: int) -> BaseSampler:
    """The sampler that suggests configuration `number` of the study of a search.

    What it knows is in the study. Its random numbers follow from the seed of the space, the label
    of the search and the number alone. So searches do not try the same places of their ranges, what
    runs beside a search changes nothing, and one that was stopped goes on as if it had not been.
    """
    seed = int(digest_of([sampler.seed, search, number], SEED_DIGITS), 16)
    return SAMPLERS[sampler.name](seed=seed)


def pruner_of(pruner: Pruner | None) -> BasePruner:
    """The pruner; without one, a pruner that prunes nothing."""
    if pruner is None:
        return NopPruner()
    if isinstance(pruner, Asha):
        first, factor = pruner.first_evaluation, pruner.reduction_factor
        return SuccessiveHalvingPruner(min_resource=first, reduction_factor=factor)
    if isinstance(pruner, Wilcoxon):
        return WilcoxonPruner(p_threshold=pruner.p_threshold)
    keep = 50.0 if isinstance(pruner, Median) else pruner.keep_percent
    return PercentilePruner(
        keep,
        n_startup_trials=pruner.startup_configurations,
        n_warmup_steps=pruner.first_evaluation,
    )


def distribution(axis: SamplerRange | SamplerValues) -> BaseDistribution:
    """The distribution of Optuna for a range of a search space."""
    if isinstance(axis, SamplerValues):
        return CategoricalDistribution(axis.values)
    numbers = (axis.low, axis.high, axis.step or 0.5)
    if isinstance(axis, WholeRange) or all(float(number).is_integer() for number in numbers):
        low, step = int(axis.low), int(axis.step or 1)
        high = low + (int(axis.high) - low) // step * step  # the last value that a step reaches
        return IntDistribution(low, high, log=axis.log, step=step)
    return FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)


def suggested(trial: optuna.Trial, name: str, axis: SamplerRange | SamplerValues) -> Any:
    """A value of one range for a trial of a study."""
    found = distribution(axis)
    if isinstance(found, CategoricalDistribution):
        return trial.suggest_categorical(name, found.choices)
    if isinstance(found, IntDistribution):
        return trial.suggest_int(name, found.low, found.high, step=found.step, log=found.log)
    return trial.suggest_float(name, found.low, found.high, step=found.step, log=found.log)
