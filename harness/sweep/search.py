"""A search: what a sweep tries of one method on one encoder, and what it chooses."""

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
from harness.sweep.space import Repeats, Round, Sampler, SamplerRange, Values, expand
from harness.trials.trial import Role, Trial, resolve


@dataclass(frozen=True)
class Search:
    """One method on one encoder."""

    method: str
    """Name or path of the plugin"""
    fixed: Values
    """What all configurations of the search share"""
    rounds: tuple[Round, ...]
    ranges: Mapping[str, SamplerRange | list[Any]]
    sampler: Sampler | None
    repeats: Mapping[Role, Repeats]
    limit: int | None
    """At most so many configurations per round"""

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
        """Digest of the search's definition; a sampler's trials are found again by it."""
        parts = [
            self.declared.source_digest,
            self.config.model_dump(mode="json"),
            {key: _plain(axis) for key, axis in self.ranges.items()},
            None if self.sampler is None else self.sampler.model_dump(include={"name", "seed"}),
            self.repeats["search"].model_dump(),
        ]
        return digest_of(parts)

    def configurations(self, number: int, scored: list[tuple[Values, float]]) -> list[Values]:
        """What round `number` tries: its axes around the best configuration so far.

        `scored`: all configurations so far, with their mean dev scores.
        """
        base = best(scored) if scored else self.fixed
        tried = [self._coerced({**base, **axes}) for axes in expand(self.rounds[number], scored)]
        if self.limit is not None and self.limit < len(tried):
            chosen = sorted(random.Random(number).sample(range(len(tried)), self.limit))
            tried = [tried[index] for index in chosen]
        return tried

    def _coerced(self, values: Values) -> Values:
        """The same values in the types of the configuration: the text "1e-5" becomes 1e-05."""
        config = resolve(registry.load(self.method), values)
        return {name: getattr(config, name) for name in values}

    def trials(self, configurations: Iterable[Values], role: Role) -> list[Trial]:
        """Each configuration on each seed and subset of the role that changes its result."""
        return [
            trial
            for configuration in configurations
            for trial in repeated(
                Trial(self.method, configuration, 0, role, self.id), self.repeats[role]
            )
        ]


def repeated(trial: Trial, repeats: Repeats) -> list[Trial]:
    """The trial on each seed, and on each label subset where it uses only a share of the labels.

    Where nothing trains, the first seed stands for all.
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
    """The configuration with the highest dev score; the earlier one of two equals."""
    return max(scored, key=lambda pair: pair[1])[0]


def _plain(axis: Any) -> Any:
    return axis.model_dump() if isinstance(axis, SamplerRange) else axis
