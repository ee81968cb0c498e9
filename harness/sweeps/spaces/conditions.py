"""Ranges of a sampler that apply only when another hyperparameter has a certain value."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import TypeAdapter

from harness.plugin.config import MethodConfig
from harness.plugin.registry import Plugin
from harness.plugin.resolution import resolve
from harness.sweeps.spaces.axes import SamplerRange, SamplerValues, Values, WholeRange

Ranges = Mapping[str, SamplerRange | SamplerValues]
"""Hyperparameter -> what a sampler draws its values from"""


def applies(axis: SamplerRange | SamplerValues, values: Mapping[str, Any]) -> bool:
    """Whether a range applies. `values`: what has been drawn for the ranges above it.

    A range does not apply either when the one on which it depends does not.
    """
    return all(name in values and values[name] in among for name, among in axis.when.items())


def drawn_params(ranges: Ranges, configuration: Values) -> Values:
    """Those values of a configuration that a sampler has drawn for it."""
    drawn: Values = {}
    for name, axis in ranges.items():
        if applies(axis, drawn):
            drawn[name] = configuration[name]
    return drawn


def bound(plugin: Plugin, fixed: Values, ranges: Ranges) -> dict[str, SamplerRange | SamplerValues]:
    """The ranges that apply beside the fixed values, with all values in the method's types.

    A condition on a fixed value holds or does not, and is gone afterwards.
    """
    config = resolve(plugin, fixed)
    kept: dict[str, SamplerRange | SamplerValues] = {}
    for name, axis in ranges.items():
        when = {other: _typed(config, other, among) for other, among in axis.when.items()}
        given = {other: getattr(config, other) for other in when if other not in ranges}
        if any(value not in when[other] for other, value in given.items()):
            continue
        left = {other: among for other, among in when.items() if other in ranges}
        if not left.keys() <= kept.keys():
            continue  # the range on which it depends does not apply
        changed: Values = {"when": left}
        if isinstance(axis, SamplerValues):
            changed["values"] = _typed(config, name, axis.values)
        elif is_whole(type(config), name):
            axis = WholeRange(**axis.model_dump())
        kept[name] = axis.model_copy(update=changed)
    return kept


def is_whole(config: type[MethodConfig], name: str) -> bool:
    """Whether a hyperparameter is a whole number, or None."""
    annotation: Any = config.model_fields[name].annotation
    return {*get_args(annotation)} - {type(None)} == {int} or annotation is int


def _typed(config: MethodConfig, name: str, values: list[Any]) -> list[Any]:
    """The values in the type of a hyperparameter: the text "1e-5" becomes 1e-05."""
    annotation: Any = type(config).model_fields[name].annotation
    adapter = TypeAdapter[Any](annotation)
    return [adapter.validate_python(value) for value in values]


def condition_problem(ranges: Ranges) -> tuple[str, str] | None:
    """The first range whose condition cannot be, and why."""
    above: dict[str, SamplerRange | SamplerValues] = {}
    for name, axis in ranges.items():
        for other, among in axis.when.items():
            if other not in above:
                names = f"; above it are: {', '.join(above)}" if above else ""
                return name, f'when names "{other}", which is no range above this one{names}'
            for value in among:
                if not _possible(above[other], value):
                    return name, f"when: {other} is never {value!r}{_values(above[other])}"
        above[name] = axis
    return None


def _possible(axis: SamplerRange | SamplerValues, value: Any) -> bool:
    if isinstance(axis, SamplerValues):
        return value in axis.values
    return isinstance(value, int | float) and axis.low <= value <= axis.high


def _values(axis: SamplerRange | SamplerValues) -> str:
    if isinstance(axis, SamplerValues):
        return f"; its values: {', '.join(map(str, axis.values))}"
    return f"; its values: {axis.low:g} to {axis.high:g}"
