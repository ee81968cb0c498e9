"""The searches of a search space, after the command line has narrowed it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from harness.errors import UserError, suggest
from harness.plugin import registry
from harness.sweep.search import Search
from harness.sweep.space import MethodSpace, Repeats, Space, rounds
from harness.sweep.space_values import check_command_line, check_shared, check_values
from harness.sweep.yaml_lines import Document
from harness.trials.trial import resolve


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
    published: bool = False
    """Whether the papers' own values are run instead of a search"""

    def without(self, axes: Mapping[str, Any]) -> dict[str, Any]:
        """The axes that the command line leaves to the search."""
        if self.published:
            return {}
        return {name: axis for name, axis in axes.items() if name not in self.values}


def searches(space: Space, document: Document, overrides: Overrides) -> list[Search]:
    """One search per method, setting, encoder and variant, in the file's order.

    Raises UserError for an unknown method, corpus or hyperparameter, and for a value that a method
    refuses.
    """
    locators = _methods(space, document, overrides.methods)
    plugins = [registry.load(locator) for locator in locators.values()]
    check_shared(space, document, plugins)
    check_command_line(overrides.values, plugins)
    found: list[Search] = []
    for name, locator in locators.items():
        check_values(registry.load(locator), name, space, document)
        found += _searches(locator, space, space.methods[name] or MethodSpace(), overrides)
    for search in found:
        search.declared.check()  # an unknown corpus is refused here, before anything runs
    return found


def _searches(
    locator: str, space: Space, part: MethodSpace, overrides: Overrides
) -> Iterator[Search]:
    """The searches of one method."""
    axes: dict[str, Any] = {
        "setting": part.setting or space.setting,
        "encoder": overrides.encoders or part.encoders or space.encoders,
    }
    axes |= {name: [overrides.values[name]] for name in axes.keys() & overrides.values.keys()}
    variants = part.variants or {"": {}}
    for setting, encoder, variant in product(axes["setting"], axes["encoder"], variants):
        values = {**space.set, **part.set, **variants[variant], **overrides.values}
        values |= {"setting": setting, "encoder": encoder}
        yield _search(locator, variant, {"suite": space.suite, **values}, space, part, overrides)


def _search(
    locator: str,
    variant: str,
    given: Mapping[str, Any],
    space: Space,
    part: MethodSpace,
    overrides: Overrides,
) -> Search:
    plugin = registry.load(locator)
    fields = plugin.method.config_type.model_fields
    fixed = {key: value for key, value in given.items() if key in fields}
    resolve(plugin, fixed)  # it refuses a bad value now, before anything runs
    free = [overrides.without(axes) for axes in rounds(part)]
    ranges = overrides.without(part.ranges or {})
    limit = overrides.configurations
    sampler = part.sampler if ranges else None
    if sampler is not None and limit is not None:
        sampler = sampler.model_copy(update={"configurations": limit})
    return Search(
        method=locator,
        variant=variant,
        fixed=fixed,
        rounds=tuple(axes for axes in free if axes),
        ranges=ranges,
        sampler=sampler,
        repeats={"search": space.search, "final": _final(space, overrides)},
        limit=limit,
    ).settled()


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
