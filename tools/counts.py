"""Counts that say how hard the source is to live in: `python -m tools.counts [FOLDER ...]`.

For each folder: files, lines, the median and the longest file, headers, and files that exactly one
other file imports. For all of them: the first words of docstrings, and words of prose that serve as
the names of variables. Without a folder, those of the checkout are counted.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

FOLDERS = ("harness", "methods", "tools", "tests", "benchmarks")
PROSE = ("found", "each", "known", "given", "said", "place", "what")
"""Words of prose that say nothing about the value of a variable"""
CLAUSES = (
    "What", "How", "Of", "Those", "As", "So", "It", "That", "By", "With", "Where", "When",
)  # fmt: skip
"""First words of a docstring that begins with a clause and not with a noun or a verb"""


@dataclass(frozen=True)
class Source:
    """A Python file of the checkout."""

    path: Path
    """Relative to the checkout"""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The file as Python parses it."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self.text.splitlines())

    @property
    def folder(self) -> str:
        """The package that the file belongs to, such as `harness/data`."""
        parts = self.path.parts[:-1]
        return "/".join(parts[: 2 if parts[0] in ("harness", "tests") else 1])

    @property
    def module(self) -> str:
        """The dotted name under which the file is imported."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    @property
    def header_lines(self) -> int:
        """Lines of the module's docstring and of its imports at the top."""
        header = [
            node
            for node in self.tree.body
            if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node)
        ]
        body = [node for node in self.tree.body if node not in header]
        first = body[0].lineno if body else self.lines + 1
        return sum(
            (node.end_lineno or node.lineno) - node.lineno + 1
            for node in header
            if node.lineno < first
        )

    def imported(self, modules: Iterable[str]) -> Iterator[str]:
        """Modules among `modules` that the file imports, at its top or inside of a function."""
        modules = set(modules)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in modules)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inside = f"{node.module}.{alias.name}"
                    yield inside if inside in modules else node.module

    def docstrings(self) -> Iterator[str]:
        """Docstrings of the module, its classes and functions, and below its constants."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                yield from (statement.value.value for statement in body if _is_text(statement))

    def identifiers(self) -> Iterator[str]:
        """Every name in the code, as often as it occurs."""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.NAME:
                yield token.string


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def sources(folders: Iterable[str]) -> list[Source]:
    """The Python files below folders of the checkout."""
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    return [Source(path, path.read_text(encoding="utf-8")) for path in paths]


def single_importers(files: list[Source]) -> dict[str, str]:
    """Module -> the only file of `files` that imports it, for modules with exactly one."""
    modules = {file.module for file in files}
    importers: dict[str, set[str]] = {}
    for file in files:
        for module in file.imported(modules):
            importers.setdefault(module, set()).add(file.module)
    return {
        module: next(iter(by))
        for module, by in importers.items()
        if module in modules and len(by) == 1
    }


def _row(name: str, files: list[Source], single: dict[str, str]) -> str:
    lines = [file.lines for file in files]
    alone = sum(file.module in single for file in files)
    header = sum(file.header_lines for file in files)
    return (
        f"{name:24} {len(files):5} {sum(lines):7,} {median(lines):6.0f} {max(lines):7} "
        f"{header:7,} {alone:6}"
    )


def main(folders: list[str]) -> None:
    """Print the counts of the folders."""
    files = sources(folders or FOLDERS)
    # Tests import what they test, so they do not count as users.
    program = [file for file in files if file.path.parts[0] != "tests"]
    single = single_importers(program)
    print(f"{'':24} {'files':>5} {'lines':>7} median longest headers single")
    for folder in sorted({file.folder for file in files}):
        print(_row(folder, [file for file in files if file.folder == folder], single))
    for top in dict.fromkeys(file.path.parts[0] for file in files):
        print(_row(f"all of {top}", [file for file in files if file.path.parts[0] == top], single))
    names = Counter(name for file in program for name in file.identifiers())
    print("\nnames:", ", ".join(f"{word} {names[word]:,}" for word in PROSE))
    first = Counter(
        words[0]
        for file in program
        for text in file.docstrings()
        if (words := re.findall(r"\w+", text))
    )
    print("first words:", ", ".join(f"{word} {first[word]}" for word in CLAUSES))
    print(f"docstrings that begin with one of these: {sum(first[word] for word in CLAUSES)}")


if __name__ == "__main__":
    main(sys.argv[1:])
