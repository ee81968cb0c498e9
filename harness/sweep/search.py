"""A search: the configurations of one method on one encoder that are tried, and the choice."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.evaluation.suites import suite
from harness.files import digest_of
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.declared import Declared
from harness.sweep.axes import Round, SamplerRange, Values, expand
from harness.sweep.space import Repeats, Sampler
from harness.trials.trial import Role, Trial, resolve


@dataclass(frozen=True)
class Search:
    """The search of one method on one encoder."""

    method: str
    """Name or path of the plugin"""
    fixed: Values
    """The values that all configurations of the search share"""
    rounds: tuple[Round, ...]
    """The axes of each round; empty: a single configuration, or a sampler"""
    ranges: Mapping[str, SamplerRange | list[Any]]
    """The ranges of the sampler; empty without a sampler"""
    sampler: Sampler | None
    repeats: Mapping[Role, Repeats]
    """Role -> the seeds and label subsets on which each configuration is run"""
    limit: int | None
    """At most so many configurations per round; None: all"""

    @cached_property
    def declared(self) -> Declared:
        """What the method declares under the configuration that everything starts from."""
        plugin = registry.load(self.method)
        return plugin.declare(resolve(plugin, self.fixed))

    @property
    def config(self) -> MethodConfig:
        """The configuration that everything starts from."""
        return self.declared.config

    @property
    def name(self) -> str:
        """The method's name."""
        return self.declared.name

    @property
    def metric(self) -> str:
        """The dev score that selects."""
        return suite(self.config.suite).dev

    @property
    def label(self) -> str:
        """The search as people read it: method, setting, encoder."""
        return f"{self.name} {self.config.setting} {Path(self.config.encoder).name}"

    @property
    def id(self) -> str:
        """Digest of the search's definition, by which a sampler's trials are found again."""
        parts = [
            self.declared.source_digest,
            self.config.model_dump(mode="json"),
            {key: _plain(axis) for key, axis in self.ranges.items()},
            None if self.sampler is None else self.sampler.model_dump(include={"name", "seed"}),
            self.repeats["search"].model_dump(),
        ]
        return digest_of(parts)

    @property
    def searched(self) -> tuple[str, ...]:
        """The hyperparameters that the search varies, sorted."""
        return tuple(sorted({name for axes in self.rounds for name in axes} | set(self.ranges)))

    def configurations(self, number: int, scored: list[tuple[Values, float]]) -> list[Values]:
        """The configurations of a round: its axes around the best configuration so far.

        `number`: the index of the round, from 0. `scored`: all configurations so far, with their
        mean dev scores.
        """
        base = best(scored) if scored else self.fixed
        tried = [self._coerced({**base, **axes}) for axes in expand(self.rounds[number], scored)]
        if self.limit is not None and self.limit < len(tried):
            # The number of the round is the seed, so that the same command draws the same ones.
            chosen = sorted(random.Random(number).sample(range(len(tried)), self.limit))
            tried = [tried[index] for index in chosen]
        return tried

    def known_trials(self) -> list[Trial]:
        """The trials that are known before anything has run: the first round, or the only finals.

        A sampler's are not known; those of the fixed values stand for them.
        """
        if self.rounds:
            return self.trials(self.configurations(0, []), "search")
        return self.trials([self.fixed], "final")

    def _coerced(self, values: Values) -> Values:
        """The same values in the types of the configuration: the text "1e-5" becomes 1e-05."""
        config = resolve(registry.load(self.method), values)
        return {name: getattr(config, name) for name in values}

    def trials(self, configurations: Iterable[Values], role: Role) -> list[Trial]:
        """The trials of a role: each configuration on each seed and each label subset.

        Seeds and subsets that would not change the result are left out.
        """
        return [
            trial
            for configuration in configurations
            for trial in repeated(
                Trial(self.method, configuration, 0, role, self.id, self.searched),
                self.repeats[role],
            )
        ]


def repeated(trial: Trial, repeats: Repeats) -> list[Trial]:
    """The trial on each seed, and on each label subset where it uses only a share of the labels.

    A method that trains nothing runs on the first seed only, since all would give the same result.
    """
    declared = trial.declared
    choices = [{"subset": subset} for subset in repeats.subsets] if declared.draws_labels else [{}]
    seeds = repeats.seeds if declared.stages else repeats.seeds[:1]
    return [
        replace(trial, seed=seed, configuration={**trial.configuration, **choice})
        for choice in choices
        for seed in seeds
    ]


def best(scored: list[tuple[Values, float]]) -> Values:
    """The configuration with the highest dev score; of equal ones, the first."""
    return max(scored, key=lambda pair: pair[1])[0]


def _plain(axis: Any) -> Any:
    return axis.model_dump() if isinstance(axis, SamplerRange) else axis
