"""The tables of docs/plugins.md, made from what the code says about itself.

    .venv/bin/python docs/api.py    # writes them anew

Behind a line `<!-- api: harness.plugin.kit.Kit -->` of the page stands a table of the public parts
of a class, or of the functions and classes of a module. A test fails where a table is out of date.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).with_name("plugins.md")
MARK = re.compile(r"^<!-- api: ([\w.]+) -->\n(?:\n\|.*(?:\n\|.*)*\n)?", re.MULTILINE)
"""A mark, and the table behind it"""


def with_tables(markdown: str) -> str:
    """The page with a new table behind each mark."""
    return MARK.sub(lambda mark: f"<!-- api: {mark[1]} -->\n\n{table(mark[1])}\n", markdown)


def table(path: str) -> str:
    """The path, under which a reader imports it, and its public parts: calls and meanings."""
    rows = [f"| `{call}` | {meaning} |" for call, meaning in _parts(_named(path))]
    return "\n".join([f"| `{path}` | what it is |", "|---|---|", *rows])


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
        top_level = isinstance(owner, ModuleType) and part.__class__ in (type, type(_parts))
        if top_level and part.__module__ != owner.__name__:
            continue
        called = getattr(part, "__func__", getattr(part, "fget", getattr(part, "func", part)))
        if inspect.isfunction(called) or (top_level and inspect.isclass(called)):
            yield _call(name, part, called), _meaning(called)


def _call(name: str, part: Any, called: Any) -> str:
    """A name with its parameters and their defaults; a property is a name alone."""
    if called is not part and not isinstance(part, classmethod | staticmethod):
        return name
    shown, star = [], False
    for parameter in inspect.signature(called).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown, star = [*shown, "*"], True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        shown.append(str(parameter.replace(annotation=parameter.empty)))
    return f"{name}({', '.join(shown)})".replace("|", "\\|")


def _meaning(called: Any) -> str:
    """Its docstring on one line."""
    text = " ".join((inspect.getdoc(called) or "").partition("\n\nExample:")[0].split())
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
