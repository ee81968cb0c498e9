"""A search: the configurations of one method on one encoder that are tried, and the choice."""

import itertools
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from harness.data.revisions import parts_of, short_name, trained_name
from harness.files import digest_of
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.declared import Declared
from harness.plugin.resolution import CORPUS, Configuration, corpus_fields
from harness.sweeps.spaces.axes import (
    Ranges,
    Round,
    SamplerRange,
    SamplerValues,
    Values,
    expand,
    most_configurations,
)
from harness.sweeps.spaces.pruners import Pruner
from harness.sweeps.spaces.space import Repeats, Sampler
from harness.trials.trial import Role, Trial, key, suites_of

LENGTHS = {"epochs", "max_steps"}
"""Fields of which the one that ends the training first decides"""


@dataclass(frozen=True)
class Search:
    """The search of one method, or of one variant of it, in one setting on one encoder."""

    method: str
    """Name or path of the plugin"""
    variant: str
    """Name of the variant; "": the method itself"""
    fixed: Values
    """The values that all configurations of the search share"""
    rounds: tuple[Round, ...]
    """The axes of each round; empty: a single configuration, or a sampler"""
    ranges: Ranges
    """The ranges of the sampler; empty without a sampler"""
    sampler: Sampler | None
    repeats: Mapping[Role, Repeats]
    """Role -> the seeds and label subsets on which each configuration is run"""
    limit: int | None
    """At most so many configurations per round; None: all"""
    pruner: Pruner | None = None
    """The rule that ends poor configurations early"""
    by_cost: bool = False
    """Whether the cheapest of the configurations nearly as good as the best is chosen"""
    trainers: Mapping[str, "Search"] = field(default_factory=dict)
    """Hyperparameter that names a model, such as `encoder` -> the search that trains it first"""
    single_valued: tuple[str, ...] = ()
    """The hyperparameters of a round that had a single configuration"""
    whole_name: bool = field(default=False, compare=False)
    """Whether the label has all of the encoder's name, as where two end in the same word"""

    @cached_property
    def declared(self) -> Declared:
        """Declarations of the method under the configuration that everything starts from."""
        return self.resolved(self.fixed).declared

    def resolved(self, values: Values) -> Configuration:
        """The configuration of these values, which all trials of the search with them share."""
        name = repr(values)
        if name not in self._resolved:
            self._resolved[name] = Configuration(self.method, values)
        return self._resolved[name]

    @cached_property
    def _resolved(self) -> dict[str, Configuration]:
        return {}

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
        return suites_of(self.config)[-1].dev

    @property
    def label(self) -> str:
        """The search as people read it: method, setting, encoder, variant."""
        trained = "".join(
            f"{'' if name == 'encoder' else f', {name}'} trained by {trainer.name}"
            for name, trainer in self.trainers.items()
        )
        shown = f" ({self.variant})" if self.variant else ""
        return f"{self.name} {self.config.setting} {self.encoder}{trained}{shown}"

    @property
    def encoder(self) -> str:
        """The encoder as people read it."""
        name = self.config.encoder
        name = parts_of(name)[0] if self.trainers else name
        return name if self.whole_name else short_name(name)

    @property
    def ready(self) -> bool:
        """Whether it is known from which models the trials start."""
        return all(parts_of(str(self.fixed[name]))[1] is not None for name in self.trainers)

    def training_trial(self, chosen: Values) -> Trial:
        """The trial that trains a model for others: the chosen values on the first final seed."""
        return self.trials([chosen], "final")[0]

    def on_models_of(self, trials: Mapping[str, Trial], *, download: bool = True) -> "Search":
        """The search on the models that these trials train, by the hyperparameters of `trainers`.

        Raises NotHere when a file that a key needs is not on this machine.
        """
        if not trials:
            return self
        models = {
            name: trained_name(parts_of(str(self.fixed[name]))[0], key(trial, download=download))
            for name, trial in trials.items()
        }
        return replace(self, fixed={**self.fixed, **models})

    @cached_property
    def id(self) -> str:
        """Digest of the search's definition, by which its trials and its study are found again."""
        parts = [
            self.declared.source_digest,
            self.config.deciding(),
            {key: _plain(axis) for key, axis in self.ranges.items()},
            None if self.sampler is None else self.sampler.model_dump(include={"name", "seed"}),
            self.repeats["search"].model_dump(),
        ]
        # Where there is neither, the identifiers of earlier versions stay.
        if self.pruner is not None:
            parts.append(self.pruner.model_dump())
        if self.by_cost:
            parts.append("cost")
        return digest_of(parts)

    def study_name(self, part: str = "") -> str:
        """The name of its study, or of that of a part, such as a round of a grid."""
        return " ".join(filter(None, (self.label, self.id, part)))

    def study_file(self, part: str = "") -> str:
        """The name of the study's file."""
        return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', self.study_name(part))}.journal"

    @property
    def searched(self) -> tuple[str, ...]:
        """The hyperparameters for which the search has values, sorted."""
        return tuple(sorted({*itertools.chain(*self.rounds, self.ranges, self.single_valued)}))

    def configurations(self, number: int, scored: list[tuple[Values, float]]) -> list[Values]:
        """The configurations of a round: its axes around the best configuration so far.

        Combinations that train the same thing are one configuration.

        `number`: the index of the round, from 0. `scored`: all configurations so far, with their
        mean dev scores.
        """
        base = best(scored) if scored else self.fixed
        found = (self._coerced({**base, **axes}) for axes in expand(self.rounds[number], scored))
        trainings: dict[object, Values] = {}
        for values in found:
            trainings.setdefault(self._training(values), values)
        tried = list(trainings.values())
        if self.limit is not None and self.limit < len(tried):
            # The number of the round is the seed, so that the same command draws the same ones.
            chosen = sorted(random.Random(number).sample(range(len(tried)), self.limit))
            tried = [tried[index] for index in chosen]
        return tried

    def simplified(self) -> "Search":
        """The search without its only round, where that has a single configuration.

        Then there is nothing to choose, and the configuration gets the final seeds at once.
        """
        if len(self.rounds) != 1:
            return self
        tried = (self._coerced({**self.fixed, **axes}) for axes in expand(self.rounds[0], []))
        first = next(tried)
        if any(self._training(values) != self._training(first) for values in tried):
            return self
        return replace(self, fixed=first, rounds=(), single_valued=self.searched)

    @property
    def most_trials(self) -> int:
        """The number of its trials, which are not made for it; those of a sampler do not count."""
        kinds: list[tuple[Role, int]] = [("search", most_configurations(self.rounds)), ("final", 1)]
        return sum(
            number * len(self.repeats[role].seeds) * len(self.repeats[role].subsets)
            for role, number in kinds
        )

    def known_trials(self) -> list[Trial]:
        """The trials that are known before anything has run: the first round, or the only finals.

        A sampler's are not known; those of the fixed values stand for them.
        """
        if self.rounds:
            return self.trials(self.configurations(0, []), "search")
        return self.trials([self.fixed], "final")

    def without_effect(self, name: str) -> bool:
        """Whether a hyperparameter changes none of its first trials; a sampler's are not known.

        `corpus` is that field of the method which names its training corpus.
        """
        fields = corpus_fields(registry.load(self.method)) if name == CORPUS else ()
        own = self.fixed.keys() & {name, *fields}
        return not own or (
            not self.ranges
            and all(own.issubset(trial.without_effect) for trial in self.known_trials())
        )

    def _coerced(self, values: Values) -> Values:
        """The values as the configuration has them.

        The text "1e-5" becomes 1e-05, and a value without a meaning becomes the default.
        """
        config = self.resolved(values).declared.config
        return {name: getattr(config, name) for name in values}

    def _training(self, values: Values) -> object:
        """Training of a configuration, the same for two that differ in a length without effect.

        `epochs` beyond `max_steps`, and `max_steps` beyond `epochs`, change nothing.
        """
        declared = self.resolved(values).declared
        lengths = [declared.steps_of(stage) for stage in declared.stages]
        if LENGTHS.isdisjoint(self.searched) or None in lengths:
            return repr(values)
        intervals = [declared.evaluation_interval(stage) for stage in declared.stages]
        return repr((declared.config.model_dump(exclude=LENGTHS), lengths, intervals))

    def trials(self, configurations: Iterable[Values], role: Role) -> list[Trial]:
        """The trials of a role: each configuration on each seed and each label subset.

        Seeds and subsets that would not change the result are left out: subsets matter where a
        share of the labels is used, and a method that trains nothing runs on the first seed only.
        """
        trials, repeats = list[Trial](), self.repeats[role]
        about = (role, self.id, self.variant, self.searched)
        for values in configurations:
            declared = self.resolved(values).declared
            subsets = [{**values, "subset": subset} for subset in repeats.subsets]
            seeds = repeats.seeds if declared.stages else repeats.seeds[:1]
            for whole in subsets if declared.draws_labels else [values]:
                resolved = self.resolved(whole)
                trials += [Trial(self.method, resolved, seed, *about) for seed in seeds]
        return trials


def implied(searches: Iterable[Search]) -> list[Search]:
    """The searches that train a model for some of these and are not among them, each once.

    One that trains a model for another stands before it.
    """
    listed, trainers = list(searches), list[Search]()
    for search in listed:
        for trainer in search.trainers.values():
            for each in (*implied([trainer]), trainer):
                if each not in (*listed, *trainers):
                    trainers.append(each)
    return trainers


def best(scored: list[tuple[Values, float]]) -> Values:
    """The configuration with the highest dev score; of equal ones, the first."""
    return max(scored, key=lambda pair: pair[1])[0]


def _plain(axis: SamplerRange | SamplerValues) -> Any:
    """An axis without what it does not use."""
    if isinstance(axis, SamplerValues) and not axis.when:
        return axis.values
    return axis.model_dump(exclude=None if axis.when else {"when"})
