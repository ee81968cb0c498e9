"""YAML of users, read by the safe loader, with the line of every key."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from harness.errors import UserError, suggest
from harness.inputs import read_text

LARGEST = 2**20
"""Bytes of a file"""
Location = tuple[str | int, ...]
"""The keys and list indices that lead from the root of the file to a part of it"""
_Model = TypeVar("_Model", bound=BaseModel)


class BadYaml(Exception):
    """A text is no YAML; the message is the reason."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        """line: where it is, counted from 1; None: not known."""
        super().__init__(problem)
        self.line = line


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
        nearest = location
        while nearest and nearest not in self.lines:
            nearest = nearest[:-1]
        line = f", line {self.lines[nearest]}" if nearest in self.lines else ""
        dotted = ".".join(str(part) for part in location)
        return f"{self.path}{line}: {dotted}: " if dotted else f"{self.path}{line}: "

    def error(self, location: Location, problem: str) -> UserError:
        """The error about a part of the file."""
        return UserError(self.where(location) + problem)

    def parse(self, model: type[_Model]) -> _Model:
        """The content as a pydantic model.

        Raises UserError with the file and the line, for an unknown key also with the nearest valid
        one.
        """
        try:
            return model.model_validate(self.content)
        except ValidationError as error:
            # A misspelt key is unknown, and the right key is missing: the first message helps more.
            first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
            location: Location = ()
            for part in first["loc"]:  # pydantic adds parts for the members of a union
                if (*location, part) in self.lines:
                    location = (*location, part)
            problem = first["msg"].removeprefix("Value error, ")
            if first["type"] == "missing":
                location = (*location, first["loc"][-1])
            elif first["type"] == "extra_forbidden":
                problem = f"unknown key{suggest(str(location[-1]), _siblings(model, location))}"
            elif first["type"] in ("dict_type", "model_type"):  # words of Python
                problem = "Input should be a mapping of keys to values"
            raise self.error(location, problem) from None


def read_document(path: Path) -> Document:
    """Read a YAML file of at most LARGEST bytes, with the safe loader.

    Raises UserError for a missing file, broken YAML, a key that is written twice, or a file that
    does not hold a mapping.
    """
    text = read_text(path, at_most=LARGEST)
    lines: dict[Location, int] = {}
    try:
        root = _composed(text)
        if not isinstance(root, yaml.MappingNode):
            raise UserError(f"{path}: the file must be a mapping of keys to values")
        _walk(root, (), lines, path)  # first, because construction merges `<<` into its mapping
        return Document(path, _constructed(root), lines)
    except RecursionError as error:
        raise UserError(f"{path}: not valid YAML: {_bad(error)}") from None
    except BadYaml as error:
        line = "" if error.line is None else f", line {error.line}"
        raise UserError(f"{path}{line}: not valid YAML: {error}") from None


def read_value(text: str) -> Any:
    """The value that a text of YAML stands for. Raises BadYaml."""
    return _constructed(_composed(text))


def _composed(text: str) -> yaml.Node | None:
    """The root of a text's tree of nodes, which know their lines; None: the text is empty."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise _bad(error) from None


def _constructed(root: yaml.Node | None) -> Any:
    """The value that a tree of nodes stands for."""
    if root is None:
        return None
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(root)
    # An impossible date is a ValueError, an empty `!!int` an IndexError, and so on.
    except Exception as error:
        raise _bad(error) from None
    finally:
        loader.dispose()


def _bad(error: Exception) -> BadYaml:
    if isinstance(error, RecursionError):
        return BadYaml("it is nested too deep, or a part of it contains itself")
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return BadYaml(problem, mark.line + 1 if mark else None)


def _walk(node: Any, location: Location, lines: dict[Location, int], path: Path) -> None:
    """Add the lines of a node and of all parts inside it to `lines`."""
    lines.setdefault(location, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise BadYaml("a key must be a word or a number", line)
            inner = (*location, key.value)
            if inner in lines:  # yaml.safe_load keeps the last value without a message
                raise UserError(f"{path}, line {line}: {key.value} is written twice")
            lines[inner] = line
            _walk(value, inner, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*location, index), lines, path)


def _siblings(model: Any, location: Location) -> list[str]:
    """The valid keys beside the last part of `location`."""
    models = [model]
    for part in location[:-1]:
        inner = [
            owner.model_fields[part].annotation
            for owner in models
            if isinstance(part, str) and part in owner.model_fields
        ]
        models = _models(inner[0]) if inner else models
    return [field.alias or name for owner in models for name, field in owner.model_fields.items()]


def _models(annotation: Any) -> list[Any]:
    """The models of an annotation; of a union, a list or a mapping all of them."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
