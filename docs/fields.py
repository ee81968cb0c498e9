"""The pages of the methods: every hyperparameter, as the configuration class declares it.

The site is built from what this module reads off the code, so that a page cannot lag behind it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic.fields import FieldInfo
from pydantic.types import PathType
from pydantic_core import PydanticUndefined

from harness.plugin import MethodConfig, registry

BOUNDS = {
    Ge: ("ge", "at least"),
    Gt: ("gt", "above"),
    Le: ("le", "at most"),
    Lt: ("lt", "below"),
    MultipleOf: ("multiple_of", "a multiple of"),
    MinLen: ("min_length", "length at least"),
    MaxLen: ("max_length", "length at most"),
}
"""Constraint -> the attribute with its value, and how it reads"""
TABLE = """\
| field | type | default | published values | description | range |
|---|---|---|---|---|---|
"""


def method_page(name: str) -> str:
    """The page of a method: what its plugin says about itself, and a table of its fields."""
    plugin = registry.load(name)
    config = plugin.method.config_type
    own = [field for field in config.model_fields if _declared_in(config, field)]
    shared = [field for field in config.model_fields if field not in own]
    settings = ", ".join(f"`{each}`" for each in _choices(config.model_fields["setting"]))
    return f"""\
# {name}

{registry.docstring_line(registry.locate(name))}

Its settings are {settings}. [The methods](../methods.md#{name}) says what it does and what we
measured. A published value is the paper's, for a setting and an encoder (`*` is any encoder); it
stands before the default. `--set FIELD=VALUE` changes a field.

## Its own fields

{field_table(config, own)}
## Fields that it shares with other methods

{field_table(config, shared)}"""


def field_table(config: type[MethodConfig], names: list[str]) -> str:
    """A Markdown table with one row for each of these fields."""
    return TABLE + "".join(f"| {' | '.join(_row(config, name))} |\n" for name in names)


def _row(config: type[MethodConfig], name: str) -> list[str]:
    field = config.model_fields[name]
    cells = [
        f"`{name}`",
        _type(field.annotation),
        _default(config, field),
        _published(config.published, name),
        _description(config, name),
        ", ".join(_bounds(field)),
    ]
    return [cell.replace("|", "\\|") for cell in cells]


def _declared_in(config: type[MethodConfig], name: str) -> bool:
    """Whether the method's own file declares a field, be it with another default only."""
    classes = [each for each in config.__mro__ if each.__module__ == config.__module__]
    return any(name in each.__annotations__ for each in classes)


def _type(annotation: Any) -> str:
    """A type in words: `int` or none; `joint`, `sup-unsup` or `sup-joint`; a file."""
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(_type(member) for member in get_args(annotation))
    if get_origin(annotation) is Literal:
        return _listed([f"`{choice}`" for choice in get_args(annotation)])
    if annotation is NoneType:
        return "none"
    metadata = getattr(annotation, "__metadata__", ())
    if any(isinstance(each, PathType) for each in metadata) or annotation is Path:
        return "file"
    if metadata:
        return _type(get_args(annotation)[0])
    return f"`{annotation.__name__}`" if get_origin(annotation) is None else f"`{annotation}`"


def _listed(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _choices(field: FieldInfo) -> tuple[Any, ...]:
    return get_args(field.annotation)


def _default(config: type[MethodConfig], field: FieldInfo) -> str:
    """The default; where it depends on other fields, what it is under their defaults."""
    others = {name: other.default for name, other in config.model_fields.items()}
    value = field.get_default(call_default_factory=True, validated_data=others)
    if value is PydanticUndefined:
        return ""
    depends = " (it depends on other fields)" if field.default_factory_takes_validated_data else ""
    return _value(value) + depends


def _value(value: Any) -> str:
    """A value as `--set` reads it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _published(published: Mapping[tuple[str, str], Mapping[str, Any]], name: str) -> str:
    return "<br>".join(
        f"{setting}, {'`*`' if encoder == '*' else encoder}: {_value(values[name])}"
        for (setting, encoder), values in published.items()
        if name in values
    )


def _description(config: type[MethodConfig], name: str) -> str:
    """The field's description; where a method changes only the default, the inherited one."""
    for each in config.__mro__:
        field = getattr(each, "model_fields", {}).get(name)
        if field is not None and field.description:
            return str(field.description)
    return ""


def _bounds(field: FieldInfo) -> Iterator[str]:
    for constraint in field.metadata:
        if type(constraint) in BOUNDS:
            attribute, words = BOUNDS[type(constraint)]
            yield f"{words} {getattr(constraint, attribute):g}"
