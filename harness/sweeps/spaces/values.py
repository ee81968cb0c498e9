"""The values of a search space and of `--set`: reading them, and checks against their methods."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from harness.document import BadYaml, Document, Location, read_value
from harness.errors import UserError, suggest
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.registry import Plugin, located
from harness.plugin.resolution import CORPUS, corpus_fields, resolve
from harness.sweeps.spaces.axes import Between, SamplerRange, SamplerValues, Span, Values, is_whole
from harness.sweeps.spaces.space import MethodSpace, SetValues, Space, TrainedEncoder, TrainedModel

OF_THE_SPACE = {
    "encoder": "write `encoders:` for the whole space, or for one method",
    "setting": "write `setting:` for the whole space, or for one method",
    "suite": "write `suite:` for the whole space",
    "selected_by": "write `select: {metric: ...}` for the whole space",
}
"""Field that is not searched -> where it is set instead"""
REPEAT_KEYS = {"seed": "seeds", "subset": "subsets"}
"""Field -> its key under `search` and `final`; these fields are not hyperparameters"""


def trained_models(values: SetValues) -> dict[str, TrainedModel]:
    """Hyperparameter -> the model that another method trains, for those that have one."""
    return {name: each for name, each in values.items() if isinstance(each, TrainedModel)}


def plain_values(values: SetValues, encoder: str) -> Values:
    """The values, with the pretrained model in the place of each that another method trains.

    encoder: that of the search, for those that name none.
    """
    models = {name: each.encoder or encoder for name, each in trained_models(values).items()}
    return {**values, **models}


def pretrained(encoder: str | TrainedEncoder) -> str:
    """The name of the pretrained model behind an encoder of a space."""
    return encoder.encoder if isinstance(encoder, TrainedEncoder) else encoder


def check_shared(space: Space, document: Document, plugins: list[Plugin]) -> None:
    """Check that at least one method has each hyperparameter that a space sets for all of them.

    Raises UserError for a hyperparameter that no method has.
    """
    fields = _fields(plugins)
    if space.set.keys() - fields:  # it may be of a method that was not asked for
        fields |= {key for name in space.methods for key in _fields_of(name, document)}
    for key in space.set:
        if problem := _problem(key, fields, "no method here has a"):
            raise document.error(("set", key), problem)


def check_command_line(values: Mapping[str, Any], plugins: Iterable[Plugin]) -> None:
    """Check that at least one method has each hyperparameter of `--set`.

    Raises UserError for a hyperparameter that no method has.
    """
    fields = _fields(plugins)
    for key in values:
        if problem := _problem(key, fields, "no method here has a"):
            option = f"; here, use --{REPEAT_KEYS[key]}" if key in REPEAT_KEYS else ""
            raise UserError(f"--set {key}: {problem}{option}")


def _problem(key: str, fields: Iterable[str], owner: str) -> str | None:
    """The reason why a key is not a hyperparameter. `owner`: the beginning of a sentence."""
    if key in REPEAT_KEYS:
        where = f"write `{REPEAT_KEYS[key]}:` under search and final"
        return f"the {key} is not a hyperparameter; {where}"
    if key not in fields:
        return f'{owner} hyperparameter "{key}"{suggest(key, fields)}'
    return None


def check_values(plugin: Plugin, name: str, space: Space, document: Document) -> None:
    """Check every value in the file against the method's configuration.

    Raises UserError with the line of the first value that the method refuses.
    """
    part = space.methods[name]
    where: Location = ("methods", name)
    fields = plugin.config_type.model_fields
    shared = {key: value for key, value in space.set.items() if key in fields}
    encoder = pretrained((part.encoders or space.encoders)[0])
    fixed = _located(("set",), shared)
    fixed |= _located((*where, "set"), plain_values(part.set, encoder))
    variants = {
        variant: _located((*where, "variants", variant), plain_values(written.values, encoder))
        for variant, written in (part.variants or {}).items()
    }
    axes = dict(_axes(where, part, plugin.config_type))
    for location in (*fixed, *(place for own in variants.values() for place in own), *axes):
        _check_key(plugin, location, document)
    for setting in part.setting or space.setting:
        base: Values = {"setting": setting, "suite": space.suite, "encoder": encoder}
        resolve(plugin, base, document.where(where))
        base |= _check_together(plugin, base, fixed, document)
        for variant, own in (variants or {"": {}}).items():
            whole = base | _check_together(plugin, base, own, document)
            for location, values in axes.items():
                if location[2] == "variants" and location[3] != variant:
                    continue
                for value in values:
                    # One value at a time, so that the message names the line of this value.
                    resolve(plugin, {**whole, str(location[-1]): value}, document.where(location))


Located = dict[Location, Any]
"""The place of a value in the file, which ends in its hyperparameter -> the value"""


def _located(where: Location, values: Values) -> Located:
    return {(*where, key): value for key, value in values.items()}


def _check_key(plugin: Plugin, location: Location, document: Document) -> None:
    """Check that the method has the hyperparameter in which a location ends."""
    key, fields = str(location[-1]), plugin.config_type.model_fields
    if key in OF_THE_SPACE:
        raise document.error(location, f"{key} is not a hyperparameter; {OF_THE_SPACE[key]}")
    if key == CORPUS and key not in fields and (own := corpus_fields(plugin)):
        if any(part in location[2:-1] for part in ("grid", "rounds", "ranges")):
            raise document.error(
                location, f"a search names the corpus of {plugin.name} itself: {', '.join(own)}"
            )
        return  # `resolve` reads it as the method's own
    if problem := _problem(key, fields, f"method {plugin.name} has no"):
        raise document.error(location, problem)


def _check_together(plugin: Plugin, base: Values, written: Located, document: Document) -> Values:
    """Check values that a method gets together, and return them by their hyperparameters."""
    values = {str(location[-1]): value for location, value in written.items()}
    try:
        resolve(plugin, {**base, **values})
    except UserError:
        for location, value in written.items():  # where one of them is wrong by itself
            resolve(plugin, {**base, str(location[-1]): value}, document.where(location))
        resolve(plugin, {**base, **values}, document.where(next(iter(written))[:-1]))
    return values


def _fields(plugins: Iterable[Plugin]) -> set[str]:
    """The hyperparameters of several methods."""
    plugins = list(plugins)
    corpus = {CORPUS} if any(map(corpus_fields, plugins)) else set()
    return corpus | {key for plugin in plugins for key in plugin.config_type.model_fields}


def _fields_of(name: str, document: Document) -> Iterable[str]:
    """The hyperparameters of a method of the space; none when no such method is found here."""
    try:
        locator = located(name, document, ())
    except UserError:
        return ()
    return registry.load(locator).config_type.model_fields


def _axes(
    where: Location, part: MethodSpace, config: type[MethodConfig]
) -> Iterable[tuple[Location, list[Any]]]:
    """The place of every axis of a method's part of the file, and the values of the axis."""
    for place, axes in part.located_rounds(where):
        for key, axis in axes.items():
            yield (*place, key), _known_values(axis)
    for key, span in (part.ranges or {}).items():
        whole = key in config.model_fields and is_whole(config, key)
        yield (*where, "ranges", key), _known_values(span, whole=whole)


def _known_values(axis: Any, *, whole: bool = False) -> list[Any]:
    """The values of an axis that are known before anything has run.

    `whole`: whether the axis is of a hyperparameter that is a whole number.
    """
    if isinstance(axis, Span):
        if axis.count > 1000:  # what a method refuses, it refuses at an end or for not being whole
            return [axis.start, axis.start + axis.step, axis.stop]
        return list(axis.values())
    if isinstance(axis, SamplerRange):
        # A value inside the range, which is not a whole number unless all values are.
        step = axis.step or (1 if whole else (axis.high - axis.low) / math.pi)
        return [axis.low, min(axis.low + step, axis.high), axis.high]
    if isinstance(axis, SamplerValues):
        return axis.values
    return [] if isinstance(axis, Between) else list(axis)


_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def read_values(texts: Mapping[str, Any], plugins: Iterable[Plugin]) -> dict[str, Any]:
    """The values, with each text read as the field of the first method that has it.

    A field of text takes the text as it is written, so that a path may have any characters. A
    field of numbers takes a number, a switch `true` or `false`, and a field that may be empty
    `null`. Any other field, such as a list, takes YAML. Raises UserError for a text that is none.
    """
    fields: dict[str, Any] = {}
    for plugin in plugins:
        fields = {**plugin.config_type.model_fields, **fields}
    return {
        name: _read(name, str(value), _kinds(fields[name].annotation))
        if isinstance(value, str | Path) and name in fields
        else value
        for name, value in texts.items()
    }


def _read(name: str, text: str, kinds: set[Any]) -> Any:
    if NoneType in kinds and text == "null":
        return None
    if kinds <= {str, Path, NoneType}:
        return text
    if kinds <= {int, float, bool, str, NoneType}:
        return _number(text, kinds)
    try:
        return read_value(text)
    except BadYaml as error:
        raise UserError(f"--set {name}={text}: the value is not valid YAML: {error}") from None


def _number(text: str, kinds: set[Any]) -> Any:
    """The number or the switch that a text says, or the text, which the field then refuses."""
    if bool in kinds and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _kinds(annotation: Any) -> set[Any]:
    """The types of the values that a field takes."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kinds(parts[0])
    if origin is Literal:
        return {type(value) for value in parts}
    if origin in (Union, UnionType):
        return {kind for part in parts for kind in _kinds(part)}
    return {annotation}
