"""Names of mteb's tasks and benchmarks as its source has them: to import mteb takes seconds."""

import functools
import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl

from harness.errors import UserError, check_extra, suggest

MTEB = "mteb:"
"""Prefix of the name of a task or a benchmark of mteb"""
_NAME, _TEXT = re.compile(r'\bname\s*=\s*"([^"\n]+)"'), re.compile(r'"([^"\n]+)"')


def split_options(name: str) -> tuple[str, str | None]:
    """Split the name of a suite into what is measured and the split that selects, if there is one.

    Raises UserError for other options.
    """
    wanted, _, query = name.removeprefix(MTEB).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    dev = options.pop("dev", None)
    if options or dev == "":
        raise UserError(f'suite "{name}": what can follow the question mark is dev=SPLIT')
    return wanted, dev


def check_named(name: str) -> None:
    """Raises UserError for a suite that is no task and no benchmark, and where mteb is missing."""
    wanted, _ = split_options(name)
    check_extra("mteb", "mteb", f'suite "{name}"')
    tasks, benchmarks, aliases = _names()
    if tasks and wanted not in tasks and plain(wanted) not in aliases:
        raise unknown(wanted, [*tasks, *map(written, benchmarks)])


def unknown(wanted: str, names: list[str]) -> UserError:
    """The refusal of a name that is none of these."""
    return UserError(f'mteb has no task and no benchmark "{wanted}"{suggest(wanted, names)}')


def written(name: str) -> str:
    """The name of a benchmark without what a shell would read."""
    return re.sub(r"\W+", "-", name).strip("-")


def plain(name: str) -> str:
    """The name of a benchmark as names are compared."""
    return written(name).casefold()


@functools.cache
def _names() -> tuple[list[str], list[str], frozenset[str]]:
    """The names of tasks and of benchmarks, and the texts one of which may be an alias of these."""
    folders = getattr(find_spec("mteb"), "submodule_search_locations", None) or ()

    def source(part: str) -> str:
        paths = sorted(path for folder in folders for path in Path(folder, part).rglob("*.py"))
        return "\n".join(path.read_text(encoding="utf-8") for path in paths)

    benchmarks = source("benchmarks")
    aliases = frozenset(map(plain, _TEXT.findall(benchmarks))) - {""}
    return _NAME.findall(source("tasks")), _NAME.findall(benchmarks), aliases
