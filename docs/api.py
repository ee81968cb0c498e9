"""The tables of docs/plugins.md, made from what the code says about itself.

A line `<!-- api: harness.plugin.kit.Kit -->` of the page stands for a table of the public parts of
a class or of the functions and classes of a module.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

MARK = re.compile(r"^<!-- api: ([\w.]+) -->$", re.MULTILINE)


def with_tables(markdown: str) -> str:
    """The page with a table in the place of each mark."""
    return MARK.sub(lambda found: table(found[1]), markdown)


def table(path: str) -> str:
    """The public parts of what a dotted path names: how each is called, and what it is."""
    rows = [f"| `{call}` | {meaning} |" for call, meaning in _parts(_named(path))]
    return "\n".join(["| call | what it is |", "|---|---|", *rows])


def _named(path: str) -> Any:
    try:
        return import_module(path)
    except ModuleNotFoundError:
        home, _, name = path.rpartition(".")
        return getattr(import_module(home), name)


def _parts(owner: Any) -> Iterator[tuple[str, str]]:
    for name, part in vars(owner).items():
        if name.startswith("_"):
            continue
        elsewhere = isinstance(owner, ModuleType) and part.__class__ in (type, type(_parts))
        if elsewhere and part.__module__ != owner.__name__:
            continue
        found = getattr(part, "__func__", getattr(part, "fget", getattr(part, "func", part)))
        if inspect.isfunction(found) or (elsewhere and inspect.isclass(found)):
            yield _call(name, part, found), _meaning(found)


def _call(name: str, part: Any, found: Any) -> str:
    if found is not part and not isinstance(part, classmethod | staticmethod):
        return name  # a property
    shown = [each for each in inspect.signature(found).parameters if each not in ("self", "cls")]
    return f"{name}({', '.join(shown)})"


def _meaning(found: Any) -> str:
    """Its docstring on one line."""
    text = " ".join((inspect.getdoc(found) or "").partition("\n\nExample:")[0].split())
    return text.replace("|", "\\|")
