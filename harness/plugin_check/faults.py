"""A fault of a plugin: what is wrong, and the line of the plugin's source where it is."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any, TypeVar

from harness.plugin.registry import Plugin, locate

Node = TypeVar("Node", bound=ast.stmt | ast.expr)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a plugin."""

    sentence: str
    place: str
    """FILE:LINE in the plugin"""
    stage: str = ""
    """Name of the stage in which it was found; "" where it belongs to none"""

    @property
    def identity(self) -> tuple[str, str]:
        """Equal for faults that are the same fault, such as one exception on two ways to it."""
        _, raises, error = self.sentence.partition(" raises ")
        return self.place, error if raises else self.sentence


class FaultFound(Exception):
    """A check cannot go on after a fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.sentence)
        self.fault = fault


def until_found(faults: Iterator[Fault]) -> Iterator[Fault]:
    """The faults, of which the one that ends the check is the last."""
    try:
        yield from faults
    except FaultFound as found:
        yield found.fault


class PluginLines:
    """Finds the lines of a plugin's source."""

    def __init__(self, name: str, plugin: Plugin) -> None:
        """name: of the plugin, or its path, as `registry.locate` reads it."""
        found, self.method = locate(name), plugin.method
        self.files = sorted(found.rglob("*.py")) if found.is_dir() else [found]
        self.main = found / "__init__.py" if found.is_dir() else found

    def of_error(self, error: BaseException) -> str:
        """The last line of the plugin on the way to an exception; without any, its class."""
        line = ""
        cause: BaseException | None = error
        while cause is not None:
            line = line or self._last(cause.__traceback__)
            cause = cause.__cause__
        return line or self.of_class("Method")

    def of_function(self, name: str) -> str:
        """The line of a function of the method; for an inherited one, that of its class."""
        line = self._first(ast.FunctionDef, lambda node: node.name == name)
        return line or self.of_class("Method")

    def of_text(self, text: str, function: str) -> str:
        """The line of a text in quotes; where it is put together, that of the function."""
        line = self._first(ast.Constant, lambda node: node.value == text)
        return line or self.of_function(function)

    def of_attribute(self, name: str) -> str:
        """The line where an attribute or a variable is counted up, or else that of `losses`."""

        def counts_up(node: ast.AugAssign) -> bool:
            return name == getattr(node.target, "attr", getattr(node.target, "id", ""))

        return self._first(ast.AugAssign, counts_up) or self.of_function("losses")

    def of_assignment(self, name: str) -> str:
        """The line where `self.name` gets its value."""

        def assigns(node: ast.Assign) -> bool:
            return any(getattr(target, "attr", "") == name for target in node.targets)

        return self._first(ast.Assign, assigns) or self.of_function("__init__")

    def of_class(self, name: str) -> str:
        """The line where the plugin defines a class, or else its first line."""
        line = self._first(ast.ClassDef, lambda node: node.name == name)
        return line or self._shown(self.main, 1)

    def _first(self, kind: type[Node], wanted: Callable[[Node], bool]) -> str:
        for path in [self.main, *(each for each in self.files if each != self.main)]:
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if lines := [node.lineno for node in nodes if isinstance(node, kind) and wanted(node)]:
                return self._shown(path, min(lines))
        return ""

    def _last(self, traceback: TracebackType | None) -> str:
        line = ""
        for frame, number in walk_tb(traceback):
            path = Path(frame.f_code.co_filename)
            if path in self.files:
                line = self._shown(path, number)
        return line

    @staticmethod
    def _shown(path: Path, line: int) -> str:
        folder = Path.cwd()
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path
        return f"{shown}:{line}"


def attempted(lines: PluginLines, subject: str, call: Callable[[], Any]) -> Any:
    """The result of the call. Raises FaultFound, a sentence about `subject`, when it raises."""
    try:
        return call()
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        sentence = f"{subject} raises {type(error).__name__}: {error}"
        raise FaultFound(Fault(sentence, lines.of_error(error))) from error
