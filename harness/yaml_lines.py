"""YAML read safely, with the line of every key, so that an error can say where it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from harness.errors import UserError, suggest

Location = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Document:
    """A YAML file: its content and where each part stands."""

    path: Path
    content: dict[str, Any]
    lines: dict[Location, int]

    def where(self, location: Location) -> str:
        """`file, line n: a.b.c: ` for the nearest enclosing part that has a line."""
        known = location
        while known and known not in self.lines:
            known = known[:-1]
        line = f", line {self.lines[known]}" if known in self.lines else ""
        dotted = ".".join(str(part) for part in location)
        return f"{self.path}{line}: {dotted}: " if dotted else f"{self.path}{line}: "

    def error(self, location: Location, problem: str) -> UserError:
        """The error for a part of the file."""
        return UserError(self.where(location) + problem)

    def parse(self, model: type[Model]) -> Model:
        """The content as a pydantic model. Raises UserError with file, line and the nearest valid key."""
        try:
            return model.model_validate(self.content)
        except ValidationError as error:
            first = error.errors()[0]
            location = tuple(part for part in first["loc"] if not str(part).startswith(("function-", "list[")))
            problem = first["msg"]
            if first["type"] == "extra_forbidden":
                problem = f"unknown key{suggest(str(location[-1]), _siblings(model, location))}"
            raise self.error(location, problem) from None


def read(path: Path) -> Document:
    """Raises UserError for a missing file, broken YAML, a duplicate key or a document that is no mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: a mapping of keys to values was expected")
    lines: dict[Location, int] = {}
    _walk(root, (), lines, path)
    return Document(path, content, lines)


def _walk(node: Any, location: Location, lines: dict[Location, int], path: Path) -> None:
    lines.setdefault(location, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*location, key.value)
            if inner in lines:
                raise UserError(f"{path}, line {key.start_mark.line + 1}: {key.value} is given twice")
            lines[inner] = key.start_mark.line + 1
            _walk(value, inner, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*location, index), lines, path)


def _siblings(model: Any, location: Location) -> list[str]:
    """The valid keys beside the last part of `location`."""
    for part in location[:-1]:
        fields = getattr(model, "model_fields", None)
        annotation = fields[part].annotation if fields and part in fields else model
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        model = next((found for found in candidates if hasattr(found, "model_fields")), annotation)
    return list(getattr(model, "model_fields", ()))
