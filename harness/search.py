"""What a sweep tries of one method on one encoder, round by round, and which configuration it settles on."""

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import registry
from harness.data.corpora import source
from harness.errors import UserError, suggest
from harness.evaluation.suites import suite
from harness.space import Between, MethodSpace, Range, Round, Sampler, Space, Span, Values, expand, rounds
from harness.trial import Role, Trial, resolve
from harness.yaml_lines import Document


@dataclass(frozen=True)
class Narrowing:
    """What the command line says about a space; it beats the file."""

    methods: tuple[str, ...] = ()
    """Names or paths; empty: all of the space"""
    encoders: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None
    """At most so many configurations per search and round (drawn at random from a grid)"""
    seeds: tuple[int, ...] = ()
    """Final seeds"""


@dataclass(frozen=True)
class Search:
    """One method on one encoder."""

    method: str
    fixed: Values
    rounds: tuple[Round, ...]
    ranges: Mapping[str, Range | list[Any]]
    sampler: Sampler | None
    seeds: tuple[int, ...]
    final_seeds: tuple[int, ...]
    limit: int | None

    @property
    def config(self) -> Any:
        """The configuration that everything starts from."""
        return resolve(registry.load(self.method), self.fixed)

    @property
    def name(self) -> str:
        """The method's name."""
        return registry.load(self.method).name

    @property
    def metric(self) -> str:
        """The dev score that selects."""
        return suite(self.config.suite).dev

    @property
    def label(self) -> str:
        """For people: method, setting, encoder."""
        return f"{self.name} {self.config.setting} {Path(self.config.encoder).name}"

    @property
    def id(self) -> str:
        """Digest of the search's definition; a sampler's trials are found again by it."""
        parts = [
            registry.load(self.method).source_digest,
            self.config.model_dump(mode="json"),
            {key: _plain(axis) for key, axis in self.ranges.items()},
            None if self.sampler is None else self.sampler.model_dump(include={"name", "seed"}),
            self.seeds,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def configurations(self, number: int, scored: list[tuple[Values, float]]) -> list[Values]:
        """What round `number` tries, given all scores so far, from the best configuration so far."""
        base = best(scored) if scored else self.fixed
        tried = [self._coerced({**base, **axes}) for axes in expand(self.rounds[number], scored)]
        if self.limit is not None and self.limit < len(tried):
            chosen = sorted(random.Random(number).sample(range(len(tried)), self.limit))
            tried = [tried[index] for index in chosen]
        return tried

    def _coerced(self, values: Values) -> Values:
        """The same keys with values of the configuration's types: "1e-5" becomes 1e-05."""
        config = resolve(registry.load(self.method), values)
        return {name: getattr(config, name) for name in values}

    def trials(self, configurations: Iterable[Values], role: Role) -> list[Trial]:
        """Each configuration on each seed of the role."""
        seeds = self.seeds if role == "search" else self.final_seeds
        return [
            Trial(self.method, configuration, seed, role, self.id)
            for configuration in configurations
            for seed in seeds
        ]


def best(scored: list[tuple[Values, float]]) -> Values:
    """The configuration with the highest dev score; the earlier one of two equals."""
    return max(scored, key=lambda pair: pair[1])[0]


def build(space: Space, document: Document, narrowing: Narrowing) -> list[Search]:
    """The searches of a space after narrowing, methods in the file's order, one per encoder.

    Raises UserError for an unknown method, encoder, hyperparameter, or a value that the method refuses.
    """
    searches = []
    for name, locator in _methods(space, document, narrowing.methods).items():
        part = space.methods[name] or MethodSpace()
        plugin = registry.load(locator)
        for key in narrowing.values:
            if key not in plugin.method.Config.model_fields:
                raise UserError(f'--set {key}: method {name} has no hyperparameter "{key}"'
                                f"{suggest(key, plugin.method.Config.model_fields)}")  # fmt: skip
        _check_values(locator, name, space, part, document)
        for encoder in narrowing.encoders or space.encoders:
            searches.append(_search(locator, encoder, space, part, narrowing))
    for search in searches:
        for corpus in registry.load(search.method).method.data(search.config).values():
            source(corpus)
    return searches


def _search(locator: str, encoder: str, space: Space, part: MethodSpace, narrowing: Narrowing) -> Search:
    fixed = {"setting": space.setting, "suite": space.suite, **space.set, **part.set}
    fixed |= {"encoder": encoder, **narrowing.values}
    free = [{key: axis for key, axis in axes.items() if key not in narrowing.values} for axes in rounds(part)]
    ranges = {key: axis for key, axis in (part.ranges or {}).items() if key not in narrowing.values}
    sampler = part.sampler if ranges else None
    if sampler is not None and narrowing.trials is not None:
        sampler = sampler.model_copy(update={"trials": narrowing.trials})
    resolve(registry.load(locator), fixed)
    return Search(
        locator,
        fixed,
        tuple(axes for axes in free if axes),
        ranges,
        sampler,
        tuple(space.search.seeds),
        narrowing.seeds or tuple(space.final.seeds),
        narrowing.trials,
    )


def _methods(space: Space, document: Document, wanted: tuple[str, ...]) -> dict[str, str]:
    """Method name -> where to load it from, for the methods of the space that are wanted."""
    if not wanted:
        return {name: _known(name, document) for name in space.methods}
    chosen = {}
    for locator in wanted:
        name = registry.locate(locator).stem
        if name not in space.methods:
            raise UserError(f'{document.path} has no method "{name}"{suggest(name, space.methods)}')
        chosen[name] = locator
    return {name: chosen[name] for name in space.methods if name in chosen}


def _known(name: str, document: Document) -> str:
    known = registry.names()
    if name not in known:
        raise document.error(("methods", name), f'unknown method "{name}"{suggest(name, known)}')
    return name


def _check_values(locator: str, name: str, space: Space, part: MethodSpace, document: Document) -> None:
    """Every value in the file, one by one, against the method's configuration."""
    plugin = registry.load(locator)
    base = {"setting": space.setting, "suite": space.suite, "encoder": space.encoders[0]}
    given: list[tuple[tuple[str | int, ...], str, list[Any]]] = []
    given += [(("set", key), key, [value]) for key, value in space.set.items()]
    given += [(("methods", name, "set", key), key, [value]) for key, value in part.set.items()]
    for number, axes in enumerate(rounds(part)):
        where = ("methods", name, "grid") if part.grid else ("methods", name, "rounds", number)
        given += [((*where, key), key, _sample(axis)) for key, axis in axes.items()]
    given += [(("methods", name, "ranges", key), key, _sample(axis)) for key, axis in (part.ranges or {}).items()]
    for location, key, values in given:
        if key in ("encoder", "setting", "suite"):
            raise document.error(location, f"{key} is set for the whole space, not here")
        if key not in plugin.method.Config.model_fields:
            fields = plugin.method.Config.model_fields
            raise document.error(location, f'method {name} has no hyperparameter "{key}"{suggest(key, fields)}')
        for value in values:
            resolve(plugin, {**base, key: value}, document.where(location))


def _sample(axis: Any) -> list[Any]:
    """The values of an axis that are known before anything has run."""
    if isinstance(axis, Span):
        return axis.values()
    if isinstance(axis, Range):
        return [axis.low, axis.high]
    return [] if isinstance(axis, Between) else list(axis)


def _plain(axis: Any) -> Any:
    return axis.model_dump() if isinstance(axis, Range) else axis
