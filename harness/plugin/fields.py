"""The hyperparameters of a method in words, as its configuration class declares them.

The pages of the site and `harness show METHOD` both ask here, so neither can lag behind the code.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic.fields import FieldInfo
from pydantic.types import PathType
from pydantic_core import PydanticUndefined

from harness.plugin.config import MethodConfig

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
OWN = "Its own hyperparameters"
RELEASED = "Where its released code differs from the paper, or says more"
SHARED = "Shared with other methods"


@dataclass(frozen=True)
class DescribedField:
    """A hyperparameter in words; its texts are Markdown, with values between backticks."""

    name: str
    type: str
    default: str
    published: list[str]
    """The paper's values, each with its setting and encoder, `*` being any encoder; then the
    defaults that follow from the value of another field"""
    meaning: str
    range: str
    group: str
    """OWN or RELEASED where the method's own file declares it, else SHARED"""


def described_fields(config: type[MethodConfig]) -> list[DescribedField]:
    """All hyperparameters of a method, group by group."""
    dependent = _dependent(config)
    described = [
        DescribedField(
            name,
            _type(field.annotation),
            _default(config, field),
            [*_published(config.published, name), *dependent.get(name, ())],
            _description(config, name),
            ", ".join(_bounds(field)),
            _group(config, name),
        )
        for name, field in config.model_fields.items()
    ]
    return sorted(described, key=lambda field: (OWN, RELEASED, SHARED).index(field.group))


def _group(config: type[MethodConfig], name: str) -> str:
    """The group of a field. It is the method's own also with another default only."""
    if name in config.released:
        return RELEASED
    classes = [parent for parent in config.__mro__ if parent.__module__ == config.__module__]
    return OWN if any(name in parent.__annotations__ for parent in classes) else SHARED


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
    if get_origin(annotation) is None:
        return f"`{annotation.__name__}`"
    return f"`{annotation}`".replace("typing.", "")


def _listed(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


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


def _published(published: Mapping[tuple[str, str], Mapping[str, Any]], name: str) -> list[str]:
    return [
        f"{setting}, {'`*`' if encoder == '*' else encoder}: {_value(values[name])}"
        for (setting, encoder), values in published.items()
        if name in values
    ]


def _dependent(config: type[MethodConfig]) -> dict[str, list[str]]:
    """Field -> its defaults under other values of one other field, in words.

    The method says it in a function (`dependent_defaults`), which is asked for every choice of
    every field, for 0, and for a half of what is a share.
    """
    settings = get_args(config.model_fields["setting"].annotation)
    cases: dict[tuple[str, str, str], list[str]] = {}
    for setting in settings:
        usual = config.dependent_defaults({"setting": setting})
        for name, field in config.model_fields.items():
            for value in () if name == "setting" else _others(field):
                choice = {"setting": setting, name: value}
                for target, default in config.dependent_defaults(choice).items():
                    if usual.get(target) != default:
                        case = (target, f"{name}={_value(value)[1:-1]}", _value(default))
                        cases.setdefault(case, []).append(str(setting))
    words: dict[str, list[str]] = {}
    for (target, condition, value), default in cases.items():
        where = "" if len(default) == len(settings) else f"{', '.join(default)}, "
        words.setdefault(target, []).append(f"{where}with `{condition}`: {value}")
    return words


def _others(field: FieldInfo) -> list[Any]:
    """Values of a field other than its default, one of each kind."""
    values: list[Any] = []
    if get_origin(field.annotation) is Literal:
        values = list(get_args(field.annotation))
    elif field.annotation is bool:
        values = [True, False]
    elif field.annotation in (int, float):
        share = any(isinstance(each, Le) and each.le == 1 for each in field.metadata)
        above = any(isinstance(each, Gt) or getattr(each, "ge", 0) > 0 for each in field.metadata)
        values = [*([] if above else [0]), *([0.5] if share else [])]
    return [value for value in values if value != field.default]


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
