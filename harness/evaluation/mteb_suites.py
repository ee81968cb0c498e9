"""Suites of mteb: `mteb:STS22`, `mteb:MTEB-eng-v2`, and `mteb:mine.py` with tasks of a user.

`mteb:STSBenchmark?dev=validation` has a dev score, which is the score on this split of the data.
"""

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.data.user_modules import UserCode
from harness.errors import TrialFailure, UserError, explained
from harness.evaluation.catalogue import CARDS, SuiteCard
from harness.evaluation.mteb_data import (
    Vectors,
    commits_of,
    content,
    evaluated,
    files_of,
    loaded,
    mteb_package,
    undisturbed,
)
from harness.evaluation.mteb_names import plain, split_options, unknown, written
from harness.evaluation.scores import Origin, Scores
from harness.evaluation.suites import Suite, suite_code, suite_file
from harness.files import digest_of
from harness.relocation import here

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

TITLE = "mteb"
"""The suite of tasks that are named one by one"""


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


def _benchmark(mteb: ModuleType, name: str) -> tuple[str, list["AbsTask"]]:
    """The title and the tasks of a benchmark, which may be written without parentheses.

    `MTEB-eng-v2` is `MTEB(eng, v2)`. Raises UserError where there is none.
    """
    every = mteb.get_benchmarks()
    benchmarks = {plain(alias): each for each in every for alias in each.aliases or ()}
    benchmarks |= {plain(each.name): each for each in every}  # a name goes before an alias
    if found := benchmarks.get(plain(name)):
        return found.name, list(found.tasks)
    # It is one of the texts in mteb's source that name neither a benchmark nor an alias.
    raise unknown(name, [written(each.name) for each in every])


MEAN = "mean-task"
"""The mean over the tasks of a benchmark or of a file: "Mean (Task)" on mteb's leaderboard"""


def mteb_suite(name: str) -> Suite:
    """The suite that `name` means. Raises UserError for unknown tasks and options."""
    wanted, dev = split_options(name)
    script = suite_file(name)
    if script is None:
        return _named(wanted, dev)
    return _of_file(suite_code(here(script)), dev)


# A suite is one object in a process, so that data are read once.
@functools.cache
def _named(name: str, dev: str | None) -> Suite:
    """The suite of the task or the benchmark called `name`."""
    mteb = mteb_package(f"{TITLE}:{name}")
    with undisturbed():
        try:
            title, tasks = TITLE, [mteb.get_task(name)]
        except KeyError:
            title, tasks = _benchmark(mteb, name)
    return _suite(title, tasks, dev, {task.metadata.name: _identity(task) for task in tasks})


@functools.cache
def _of_file(code: UserCode, dev: str | None) -> Suite:
    """The suite of a user's file: its subclasses of AbsTask, and tasks that it has made.

    The data are read at once: they are a part of its digest. Raises UserError for a file without
    tasks, or with two tasks of one name.
    """
    path, title = code.path, code.path.stem
    mteb = mteb_package(f"{TITLE}:{path}")
    with undisturbed():
        tasks = _made(mteb.AbsTask, code.module("suite"))
    names = [task.metadata.name for task in tasks]
    if not tasks:
        raise UserError(f"{path} has no task of mteb: a subclass of one of its AbsTask classes")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f'{path} has two tasks called "{name}"; rename one of them')
    if title in (*CARDS, TITLE):
        raise UserError(f"{path} makes a suite called {title}; choose another name for it")
    digests = {}
    for name, task in zip(names, tasks, strict=True):
        with explained(f"{path}: the data of task {name} cannot be read: "):
            splits = [*task.eval_splits, *([dev] if dev else [])]
            data = content(loaded(task, splits).dataset)
        digests[name] = digest_of([code.text_digest, _identity(task), data])
    return _suite(title, tasks, dev, digests)


def _identity(task: "AbsTask") -> str:
    """The digest of what decides the scores of a task: data set, revision, subsets and splits."""
    parts = [_identity(part) for part in task.metadata.tasks] if task.is_aggregate else []
    source = [] if task.is_aggregate else sorted(map(str, task.metadata.dataset.items()))
    scope = [list(task.hf_subsets or ()), list(task.eval_splits)]
    return digest_of([task.metadata.name, source, scope, parts])


def _suite(
    title: str, every: Sequence["AbsTask"], dev: str | None, digests: Mapping[str, str]
) -> Suite:
    """The suite of some tasks.

    title: the benchmark, the name of the user's file, or TITLE. digests: task -> the digest of what
    decides its scores.
    """
    tasks = {task.metadata.name: task for task in every}
    tests = {name: _splits(task, dev) for name, task in tasks.items()}
    selecting = f"{next(iter(tasks)) if len(tasks) == 1 else title}-dev"
    data = {name: functools.partial(_loaded, [task], tests[name]) for name, task in tasks.items()}
    if dev is not None:
        data[selecting] = functools.partial(_loaded, [*tasks.values()], [dev])
    whole = Suite(
        _card(title, tasks, selecting if dev else None),
        main_scores,
        data,
        functools.partial(files_of, every),
        code_digest=digest_of([digests, dev]),
        embeds=True,
        commits=functools.partial(commits_of, every),
    )
    if dev is not None or len(tasks) == 1:
        return whole
    parts = [_part(whole, name, task, digests[name]) for name, task in tasks.items()]
    return replace(whole, parts=tuple(parts))


def _part(whole: Suite, name: str, task: "AbsTask", code_digest: str) -> Suite:
    """One task of a suite, which is measured and stored alone."""
    return replace(
        whole,
        card=replace(whole.card, origins={name: whole.card.origins[name]}),
        data={name: whole.data[name]},
        files=functools.partial(files_of, [task]),
        code_digest=code_digest,
        commits=functools.partial(commits_of, [task]),
    )


def _card(title: str, tasks: Mapping[str, "AbsTask"], dev: str | None) -> SuiteCard:
    names = tuple(tasks)
    card = SuiteCard(
        title,
        unit="Main scores of MTEB x100",
        dev_tasks=(dev,) if dev else (),
        decimals=2,
        origins={name: _origin(task) for name, task in tasks.items()},
    )
    if len(names) == 1:
        return card
    headings = {name: name for name in names} | {MEAN: "Mean (Task)"}
    return replace(card, headings=headings, average=MEAN, averages={MEAN: names})


def _origin(task: "AbsTask") -> Origin:
    languages = task.metadata.hf_subsets_to_langscripts
    subsets = {name: list(languages[name]) for name in task.hf_subsets or () if name in languages}
    return Origin(str(task.metadata.revision), subsets, version("mteb"))


def _splits(task: "AbsTask", dev: str | None) -> list[str]:
    """The splits whose scores are reported. Raises UserError when dev leaves none."""
    splits = [split for split in task.eval_splits if split != dev]
    if not splits:
        raise UserError(
            f'task {task.metadata.name} is reported on its split "{dev}", so this split cannot '
            f"select"
        )
    return splits


def _loaded(tasks: Sequence["AbsTask"], splits: Sequence[str]) -> list["AbsTask"]:
    return [loaded(task, splits) for task in tasks]


def main_scores(name: str, tasks: Sequence["AbsTask"], vectors: Vectors) -> Scores:
    """The main score x100 under `name`, which is a mean over subsets, splits and tasks.

    Details are all figures as mteb gives them: `task/split/subset/figure`. Raises TrialFailure
    when there is no main score.
    """
    results = [evaluated(task, vectors) for task in tasks]
    main = 100 * float(np.mean([result.get_score() for result in results]))
    if not np.isfinite(main):
        raise TrialFailure(f"mteb gives no main score for {name}")
    details = {
        f"{result.task_name}/{split}/{_place(scores['hf_subset'])}/{figure}": value
        for result in results
        for split, subsets in result.scores.items()
        for scores in subsets
        for figure, value in _figures(scores)
    }
    return Scores({name: main}, details)


def _place(subset: str) -> str:
    """The name of a subset without the sign that separates names."""
    return subset.replace("/", "%2F")


def _figures(scores: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in nested scores, each with its path."""
    if isinstance(scores, int | float | np.number) and not isinstance(scores, bool):
        yield prefix, float(scores)
    elif isinstance(scores, Mapping | list):
        named = scores.items() if isinstance(scores, Mapping) else enumerate(scores)
        for name, value in named:
            yield from _figures(value, f"{prefix}/{name}" if prefix else str(name))
