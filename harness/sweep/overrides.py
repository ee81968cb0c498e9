"""A search space, narrowed by the command line and checked against the methods, as searches."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UserError, suggest
from harness.plugin import registry
from harness.plugin.registry import Plugin
from harness.sweep.search import Search
from harness.sweep.space import Between, MethodSpace, Range, Repeats, Space, Span, rounds
from harness.sweep.yaml_lines import Document, Location
from harness.trials.trial import resolve

OF_THE_SPACE = ("encoder", "setting", "suite")
REPEATED = {"seed": "seeds", "subset": "subsets"}
"""What is said under `search` and `final`, and never varied like a hyperparameter"""


@dataclass(frozen=True)
class Narrowing:
    """What the command line says about a space; it beats the file."""

    methods: tuple[str, ...] = ()
    """Names or paths; empty: all of the space"""
    encoders: tuple[str, ...] = ()
    """Empty: those of the space"""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters fixed for every method that has them; what they fix is not searched"""
    trials: int | None = None
    """At most so many configurations per search and round (of a grid, drawn at random)"""
    seeds: tuple[int, ...] = ()
    """Final seeds; empty: those of the space"""
    subsets: tuple[int, ...] = ()
    """Final subsets of the labels; empty: those of the space"""


def searches(space: Space, document: Document, narrowing: Narrowing) -> list[Search]:
    """One search per method and encoder, in the file's order.

    Raises UserError for an unknown method, corpus or hyperparameter, and for a value that a method refuses.
    """
    locators = _methods(space, document, narrowing.methods)
    _check_shared(
        space, document, narrowing.values, [registry.load(locator) for locator in locators.values()]
    )
    encoders = (
        [narrowing.values["encoder"]]
        if "encoder" in narrowing.values
        else narrowing.encoders or space.encoders
    )
    found = []
    for name, locator in locators.items():
        _check_values(registry.load(locator), name, space, document)
        found += [
            _search(locator, encoder, space, space.methods[name] or MethodSpace(), narrowing)
            for encoder in encoders
        ]
    for search in found:
        _ = search.declared.sources  # an unknown corpus is refused here, before anything runs
    return found


def _search(
    locator: str, encoder: str, space: Space, part: MethodSpace, narrowing: Narrowing
) -> Search:
    plugin = registry.load(locator)
    fields = plugin.method.config_type.model_fields
    given = {
        "setting": space.setting,
        "suite": space.suite,
        **space.set,
        **part.set,
        **narrowing.values,
    }
    fixed = {key: value for key, value in given.items() if key in fields} | {"encoder": encoder}
    resolve(plugin, fixed)
    free = [
        {key: axis for key, axis in axes.items() if key not in narrowing.values}
        for axes in rounds(part)
    ]
    ranges = {key: axis for key, axis in (part.ranges or {}).items() if key not in narrowing.values}
    sampler = part.sampler if ranges else None
    if sampler is not None and narrowing.trials is not None:
        sampler = sampler.model_copy(update={"trials": narrowing.trials})
    return Search(
        method=locator,
        fixed=fixed,
        rounds=tuple(axes for axes in free if axes),
        ranges=ranges,
        sampler=sampler,
        repeats={"search": space.search, "final": _final(space, narrowing)},
        limit=narrowing.trials,
    )


def _final(space: Space, narrowing: Narrowing) -> Repeats:
    return Repeats(
        seeds=list(narrowing.seeds) or space.final.seeds,
        subsets=list(narrowing.subsets) or space.final.subsets,
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
    """What is set for all methods must mean something to at least one of them."""
    fields = {key for plugin in plugins for key in plugin.method.config_type.model_fields}
    every = {key for name in space.methods for key in _fields_of(name)} | fields
    for key in space.set:
        if key in REPEATED:
            raise document.error(("set", key), _repeated(key))
        if key not in every:
            raise document.error(
                ("set", key), f'no method here has a hyperparameter "{key}"{suggest(key, every)}'
            )
    for key in values:
        if key in REPEATED:
            raise UserError(f"--set {key}: {_repeated(key)}; here, use --{REPEATED[key]}")
        if key not in fields:
            raise UserError(
                f'--set {key}: no method here has a hyperparameter "{key}"{suggest(key, fields)}'
            )


def _fields_of(name: str) -> Iterable[str]:
    """The hyperparameters of a method of the space, or nothing when it cannot be found (yet)."""
    return registry.load(name).method.config_type.model_fields if name in registry.names() else ()


def _check_values(plugin: Plugin, name: str, space: Space, document: Document) -> None:
    """Every value in the file, one by one, against the method's configuration."""
    base = {"setting": space.setting, "suite": space.suite, "encoder": space.encoders[0]}
    fields = plugin.method.config_type.model_fields
    resolve(plugin, base, document.where(("methods", name)))
    shared = [(("set", key), key, [value]) for key, value in space.set.items() if key in fields]
    for location, key, values in [*shared, *_given(name, space.methods[name] or MethodSpace())]:
        if key in OF_THE_SPACE:
            raise document.error(location, f"{key} is said once for the whole space, not here")
        if key in REPEATED:
            raise document.error(location, _repeated(key))
        if key not in fields:
            raise document.error(
                location, f'method {name} has no hyperparameter "{key}"{suggest(key, fields)}'
            )
        for value in values:
            resolve(plugin, {**base, key: value}, document.where(location))


def _repeated(key: str) -> str:
    return f"the {key} is no hyperparameter; a space has `{REPEATED[key]}:` under search and final"


def _given(name: str, part: MethodSpace) -> Iterable[tuple[Location, str, list[Any]]]:
    """Where, which hyperparameter, which values: everything that a method's part of the file says."""
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
        return list(axis.values())
    if isinstance(axis, Range):
        inner = axis.low + (
            axis.step or (axis.high - axis.low) / math.pi
        )  # no whole number, unless all are
        return [axis.low, min(inner, axis.high), axis.high]
    return [] if isinstance(axis, Between) else list(axis)
