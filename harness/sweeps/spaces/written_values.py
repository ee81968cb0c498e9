"""Reads the texts of `--set` as values of the fields that they are for."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from harness.errors import UserError
from harness.plugin.registry import Plugin
from harness.sweeps.spaces.bounded_yaml import BadYaml, composed, constructed

_WHOLE = re.compile(r"[-+]?[0-9]{1,30}")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def read_values(given: Mapping[str, Any], plugins: Iterable[Plugin]) -> dict[str, Any]:
    """The values, with each text read as the field of the first method that has it.

    A field of text takes the text as it is written, so that a path may have any characters. A
    field of numbers takes a number, a switch `true` or `false`, and a field that may be empty
    `null`. Any other field, such as a list, takes YAML. Raises UserError for a text that is none.
    """
    fields: dict[str, Any] = {}
    for plugin in plugins:
        fields = {**plugin.config_type.model_fields, **fields}
    return {
        name: _read(name, value, _kinds(fields[name].annotation))
        if isinstance(value, str) and name in fields
        else value
        for name, value in given.items()
    }


def _read(name: str, text: str, kinds: set[Any]) -> Any:
    if NoneType in kinds and text == "null":
        return None
    if kinds <= {str, Path, NoneType}:
        return text
    if kinds <= {int, float, bool, str, NoneType}:
        return _number(text, kinds)
    try:
        return constructed(composed(text))
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
