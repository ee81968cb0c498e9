"""A YAML file with the line of every key, so that an error message can name the line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from harness.errors import UserError, suggest
from harness.inputs import read_text
from harness.sweeps.spaces.bounded_yaml import LARGEST, BadYaml, composed, constructed

Location = tuple[str | int, ...]
"""The keys and list indices that lead from the root of the file to a part of it"""
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class Document:
    """The content of a YAML file, and the line of each of its parts."""

    path: Path
    content: dict[str, Any]
    lines: dict[Location, int]
    """Location -> its line, counted from 1"""

    def where(self, location: Location) -> str:
        """The beginning of an error message: `file, line n: a.b.c: `.

        The line is that of the part itself, or of the nearest part around it that is in the file.
        """
        known = location
        while known and known not in self.lines:
            known = known[:-1]
        line = f", line {self.lines[known]}" if known in self.lines else ""
        dotted = ".".join(str(part) for part in location)
        return f"{self.path}{line}: {dotted}: " if dotted else f"{self.path}{line}: "

    def error(self, location: Location, problem: str) -> UserError:
        """The error about a part of the file."""
        return UserError(self.where(location) + problem)

    def _written(self, location: Location, *, missing: bool) -> Location:
        """A location of pydantic without the parts that it adds for the members of a union."""
        written: Location = ()
        for part in location:
            if (*written, part) in self.lines:
                written = (*written, part)
        return (*written, location[-1]) if missing else written

    def parse(self, model: type[_Model]) -> _Model:
        """The content as a pydantic model.

        Raises UserError with the file and the line, for an unknown key also with the nearest valid
        one.
        """
        try:
            return model.model_validate(self.content)
        except ValidationError as error:
            # A misspelt key is unknown, and the right key is missing: the first message helps more.
            first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
            location = self._written(first["loc"], missing=first["type"] == "missing")
            problem = first["msg"].removeprefix("Value error, ")
            if first["type"] == "extra_forbidden":
                problem = f"unknown key{suggest(str(location[-1]), _siblings(model, location))}"
            raise self.error(location, problem) from None


def read_document(path: Path) -> Document:
    """Read a YAML file, with the safe loader and within bounds.

    Raises UserError for a missing file, broken YAML, a key that is written twice, or a file that
    does not hold a mapping.
    """
    text = read_text(path, at_most=LARGEST)
    lines: dict[Location, int] = {}
    try:
        root = composed(text)
        if not isinstance(root, yaml.MappingNode):
            raise UserError(f"{path}: the file must be a mapping of keys to values")
        _walk(root, (), lines, path)  # first, because construction merges `<<` into its mapping
        content = constructed(root)
    except BadYaml as error:
        line = "" if error.line is None else f", line {error.line}"
        raise UserError(f"{path}{line}: not valid YAML: {error}") from None
    return Document(path, content, lines)


def _walk(node: Any, location: Location, lines: dict[Location, int], path: Path) -> None:
    """Add the lines of a node and of all parts inside it to `lines`."""
    lines.setdefault(location, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*location, key.value)
            if inner in lines:  # yaml.safe_load keeps the last value without a message
                raise UserError(
                    f"{path}, line {key.start_mark.line + 1}: {key.value} is written twice"
                )
            lines[inner] = key.start_mark.line + 1
            _walk(value, inner, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*location, index), lines, path)


def _siblings(model: Any, location: Location) -> list[str]:
    """The valid keys beside the last part of `location`."""
    for part in location[:-1]:
        if hasattr(model, "model_fields") and part in model.model_fields:
            model = model.model_fields[part].annotation
        elif get_origin(model) in (dict, list):
            model = get_args(model)[-1]
        model = _without_none(model)
    return [name for each in _models(model) for name in each.model_fields]


def _models(annotation: Any) -> list[Any]:
    """The models of an annotation; of a union all of them."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _without_none(annotation: Any) -> Any:
    """The type T of an annotation `T | None`; any other annotation as it is."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return parts[0] if type(None) in get_args(annotation) and len(parts) == 1 else annotation
