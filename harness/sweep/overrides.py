"""The searches of a search space, after the command line has narrowed it.

Every value is checked against the method that it is for.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UserError, suggest
from harness.plugin import registry
from harness.plugin.registry import Plugin
from harness.sweep.axes import Between, SamplerRange, SamplerValues, Span
from harness.sweep.conditions import bound
from harness.sweep.search import Search
from harness.sweep.space import MethodSpace, Repeats, Space, rounds
from harness.sweep.yaml_lines import Document, Location
from harness.trials.trial import resolve

OF_THE_SPACE = ("encoder", "setting", "suite")
"""Fields that a space names once, for all of its methods"""
REPEAT_KEYS = {"seed": "seeds", "subset": "subsets"}
"""Field -> its key under `search` and `final`; these fields are not hyperparameters"""


@dataclass(frozen=True)
class Overrides:
    """What the command line changes in a search space; it goes before the file."""

    methods: tuple[str, ...] = ()
    """Names or paths of methods; empty: all methods of the space"""
    encoders: tuple[str, ...] = ()
    """Names of encoders; empty: those of the space"""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters that get one value in every method that has them, and are not searched"""
    configurations: int | None = None
    """At most so many configurations per search and round; of a grid they are drawn at random"""
    seeds: tuple[int, ...] = ()
    """Final seeds; empty: those of the space"""
    subsets: tuple[int, ...] = ()
    """Final label subsets; empty: those of the space"""

    def without(self, axes: Mapping[str, Any]) -> dict[str, Any]:
        """The axes that the command line leaves to the search."""
        return {name: axis for name, axis in axes.items() if name not in self.values}


def searches(space: Space, document: Document, overrides: Overrides) -> list[Search]:
    """One search per method and encoder, in the file's order.

    Raises UserError for an unknown method, corpus or hyperparameter, and for a value that a method
    refuses.
    """
    locators = _methods(space, document, overrides.methods)
    plugins = [registry.load(locator) for locator in locators.values()]
    _check_shared(space, document, overrides.values, plugins)
    encoders = overrides.encoders or space.encoders
    if "encoder" in overrides.values:
        encoders = [overrides.values["encoder"]]
    found = []
    for name, locator in locators.items():
        _check_values(registry.load(locator), name, space, document)
        part = space.methods[name] or MethodSpace()
        found += [_search(locator, encoder, space, part, overrides) for encoder in encoders]
    for search in found:
        search.declared.check()  # an unknown corpus is refused here, before anything runs
    return found


def _search(
    locator: str, encoder: str, space: Space, part: MethodSpace, overrides: Overrides
) -> Search:
    plugin = registry.load(locator)
    fields = plugin.method.config_type.model_fields
    named = {"setting": space.setting, "suite": space.suite}
    given = {**named, **space.set, **part.set, **overrides.values}
    fixed = {key: value for key, value in given.items() if key in fields} | {"encoder": encoder}
    resolve(plugin, fixed)  # it refuses a bad value now, before anything runs
    free = [overrides.without(axes) for axes in rounds(part)]
    ranges = bound(plugin, fixed, overrides.without(part.ranges or {}))
    limit = overrides.configurations
    sampler = part.sampler if ranges else None
    if sampler is not None and limit is not None:
        sampler = sampler.model_copy(update={"configurations": limit})
    return Search(
        method=locator,
        fixed=fixed,
        rounds=tuple(axes for axes in free if axes),
        ranges=ranges,
        sampler=sampler,
        repeats={"search": space.search, "final": _final(space, overrides)},
        limit=limit,
        pruner=space.pruner,
        by_cost=space.select.cost,
    )


def _final(space: Space, overrides: Overrides) -> Repeats:
    return Repeats(
        seeds=list(overrides.seeds) or space.final.seeds,
        subsets=list(overrides.subsets) or space.final.subsets,
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


def _check_shared(
    space: Space, document: Document, values: Mapping[str, Any], plugins: list[Plugin]
) -> None:
    """Check that at least one method has each hyperparameter that is set for all of them."""
    fields = {key for plugin in plugins for key in plugin.method.config_type.model_fields}
    every = {key for name in space.methods for key in _fields_of(name)} | fields
    for key in space.set:
        if key in REPEAT_KEYS:
            raise document.error(("set", key), _repeated(key))
        if key not in every:
            raise document.error(
                ("set", key), f'no method here has a hyperparameter "{key}"{suggest(key, every)}'
            )
    for key in values:
        if key in REPEAT_KEYS:
            raise UserError(f"--set {key}: {_repeated(key)}; here, use --{REPEAT_KEYS[key]}")
        if key not in fields:
            raise UserError(
                f'--set {key}: no method here has a hyperparameter "{key}"{suggest(key, fields)}'
            )


def _fields_of(name: str) -> Iterable[str]:
    """The hyperparameters of a method of the space; none when no such method is found here."""
    return registry.load(name).method.config_type.model_fields if name in registry.names() else ()


def _check_values(plugin: Plugin, name: str, space: Space, document: Document) -> None:
    """Check every value in the file, one by one, against the method's configuration."""
    base = {"setting": space.setting, "suite": space.suite, "encoder": space.encoders[0]}
    fields = plugin.method.config_type.model_fields
    resolve(plugin, base, document.where(("methods", name)))
    shared = [(("set", key), key, [value]) for key, value in space.set.items() if key in fields]
    for location, key, values in [*shared, *_given(name, space.methods[name] or MethodSpace())]:
        if key in OF_THE_SPACE:
            raise document.error(
                location, f"{key} is set once for the whole space, not for one method"
            )
        if key in REPEAT_KEYS:
            raise document.error(location, _repeated(key))
        if key not in fields:
            raise document.error(
                location, f'method {name} has no hyperparameter "{key}"{suggest(key, fields)}'
            )
        for value in values:
            # One value at a time, so that the message names the line of this value.
            resolve(plugin, {**base, key: value}, document.where(location))


def _repeated(key: str) -> str:
    return f"the {key} is not a hyperparameter; write `{REPEAT_KEYS[key]}:` under search and final"


def _given(name: str, part: MethodSpace) -> Iterable[tuple[Location, str, list[Any]]]:
    """Every entry in a method's part of the file: its place, its hyperparameter, its values."""
    for key, value in part.set.items():
        yield ("methods", name, "set", key), key, [value]
    for number, axes in enumerate(rounds(part)):
        where = ("methods", name, "grid") if part.grid else ("methods", name, "rounds", number)
        for key, axis in axes.items():
            yield (*where, key), key, _known_values(axis)
    for key, span in (part.ranges or {}).items():
        yield ("methods", name, "ranges", key), key, _known_values(span)


def _known_values(axis: Any) -> list[Any]:
    """The values of an axis that are known before anything has run."""
    if isinstance(axis, Span):
        if axis.count > 1000:  # what a method refuses, it refuses at an end or for not being whole
            return [axis.start, axis.start + axis.step, axis.stop]
        return list(axis.values())
    if isinstance(axis, SamplerRange):
        # A value inside the range, which is not a whole number unless all values are.
        inner = axis.low + (axis.step or (axis.high - axis.low) / math.pi)
        return [axis.low, min(inner, axis.high), axis.high]
    if isinstance(axis, SamplerValues):
        return axis.values
    return [] if isinstance(axis, Between) else list(axis)
