"""The tasks of mteb that the name of a suite means."""

import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harness.data.user_modules import UserCode
from harness.errors import UserError, suggest
from harness.evaluation.mteb_library import mteb_package, undisturbed

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

TITLE = "mteb"
"""The suite of tasks that are named one by one"""


@dataclass(frozen=True)
class Chosen:
    """Tasks that are measured together."""

    title: str
    """The benchmark, the name of the user's file, or TITLE"""
    tasks: Sequence["AbsTask"]


def tasks_called(what: str) -> Chosen:
    """The task or the benchmark called `what`.

    A benchmark may be written without parentheses: `MTEB-eng-v2` is `MTEB(eng, v2)`. Raises
    UserError for an unknown name.
    """
    mteb = mteb_package(f"{TITLE}:{what}")
    with undisturbed():
        with suppress(KeyError):
            return Chosen(TITLE, [mteb.get_task(what)])
        benchmarks = _benchmarks(mteb)
        if found := benchmarks.get(_plain(what)):
            return Chosen(found.name, list(found.tasks))
        tasks = mteb.get_tasks(exclude_superseded=False, exclude_beta=False)
    known = [each.metadata.name for each in tasks]
    known += [_written(each.name) for each in benchmarks.values()]
    raise UserError(f'mteb has no task and no benchmark "{what}"{suggest(what, known)}')


def of_file(code: UserCode) -> Chosen:
    """The tasks of a user's file: its subclasses of AbsTask, and tasks that it has made.

    Raises UserError for a file without tasks, or with two tasks of one name.
    """
    path = code.path
    mteb = mteb_package(f"{TITLE}:{path}")
    with undisturbed():
        module = code.module("suite")
        tasks = [*_made(mteb.AbsTask, module)]
    names = [task.metadata.name for task in tasks]
    if not tasks:
        raise UserError(f"{path} has no task of mteb: a subclass of one of its AbsTask classes")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f'{path} has two tasks called "{name}"; rename one of them')
    return Chosen(path.stem, tasks)


def _made(base: Any, module: ModuleType) -> Sequence["AbsTask"]:
    """The tasks of a module, in the order of the file."""
    every = list({id(value): value for value in vars(module).values()}.values())
    return [
        value if isinstance(value, base) else value()
        for value in every
        if isinstance(value, base)
        or (
            inspect.isclass(value)
            and issubclass(value, base)
            and value.__module__ == module.__name__
            and hasattr(value, "metadata")
        )
    ]


def _benchmarks(mteb: ModuleType) -> dict[str, Any]:
    """Plain name -> benchmark; a name goes before another benchmark's alias."""
    every = mteb.get_benchmarks()
    aliases = {_plain(alias): each for each in every for alias in each.aliases or ()}
    return aliases | {_plain(each.name): each for each in every}


def _written(name: str) -> str:
    """The name of a benchmark without what a shell would read."""
    return re.sub(r"\W+", "-", name).strip("-")


def _plain(name: str) -> str:
    return _written(name).casefold()
