"""Suites: a suite is a scoring function, registered under a name with the data that it needs.

A shipped suite is found by its name, and tasks of mteb after `mteb:`. A user's suite is a Python
file that registers one, a table of scored pairs, or a folder with queries, documents and relevant
pairs, and it is found by its path.
"""

import functools
import importlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from harness.data.hub import once
from harness.data.rows import FORMATS, ending, known_endings
from harness.data.shapes import split_name
from harness.data.user_modules import UserCode, listed_paths, user_code
from harness.errors import TrialFailure, UserError, explained, suggest
from harness.evaluation.catalogue import CARDS, CHOOSING, STRICT, SUITE_MODULES, metric_named
from harness.evaluation.catalogue import SuiteCard as SuiteCard
from harness.evaluation.mteb_names import MTEB, check_named
from harness.evaluation.scores import Scores as Scores
from harness.evaluation.scores import of_mean
from harness.files import digest, digest_files
from harness.inputs import regular_file
from harness.relocation import here

if TYPE_CHECKING:
    import numpy as np


def check_names(suite: "Suite", beginning: str, instead: str) -> None:
    """Raises UserError when a user's suite has the name, or a dev score, of a shipped one."""
    if suite.name in CARDS:
        raise UserError(
            f"{beginning} a suite called {suite.name}, which is the name of a shipped one; "
            f"{instead}"
        )
    for task in suite.data:
        if (shipped := metric_named(task)) and shipped.split == "dev":
            raise UserError(
                f"{beginning} a score called {task}, which is a dev score of the shipped suite "
                f"{shipped.suite}; {instead}"
            )


def check_suite(suite: "Suite", path: Path) -> None:
    """Check the suite in the file `path`.

    Raises UserError when a part of it is of the wrong kind, or when it has a shipped suite's name.
    """
    try:
        TypeAdapter(Suite).validate_python(suite)
    except ValidationError as error:
        first = error.errors()[0]
        part = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {part} of the suite: {first['msg']}") from None
    check_names(suite, f"{path} has", "choose another name")
    for task in suite.card.dev_tasks:
        if task not in suite.data:
            raise UserError(
                f'{path}: the data have no dev task "{task}"{suggest(task, suite.data)}'
            )


PAIR_TABLES, MTEB_SUITES = "harness.evaluation.sts", "harness.evaluation.mteb_suites"
JUDGED = "harness.evaluation.judged"
"""The modules that make suites of tables, of tasks of mteb, and of a folder"""


class Data(Protocol):
    """The data of a task."""

    @property
    def texts(self) -> list[str]:
        """The sentences whose vectors the scoring function gets, in the same order."""


class Embed(Protocol):
    """A model that turns sentences into vectors."""

    def __call__(self, texts: list[str], *, dev: bool = False) -> "np.ndarray":
        """The vectors, (len(texts), hidden). `dev`: embed as for choosing a checkpoint."""


class Embeddings:
    """The vectors of many distinct sentences, embedded in one pass and looked up by sentence.

    Sentences that were not given beforehand are embedded when they are asked for.
    """

    def __init__(self, embed: Embed, texts: Iterable[str], *, dev: bool = False) -> None:
        self._embed = functools.partial(embed, dev=dev)
        import numpy as np  # a wrong name of a suite is answered without it

        distinct = list(dict.fromkeys(texts))
        self.vectors = self._embed(distinct) if distinct else np.empty((0, 0), np.float32)
        """(distinct sentences, hidden)"""
        self._row = {text: row for row, text in enumerate(distinct)}

    def __call__(self, texts: Sequence[str]) -> "np.ndarray":
        """The vectors of these sentences, (len(texts), hidden)."""
        if any(text not in self._row for text in texts):
            return self._embed(list(texts))
        return self.vectors[[self._row[text] for text in texts]]


@dataclass(frozen=True, eq=False)
class Suite:
    """Tasks that are measured together: a card, a scoring function and the data of the tasks."""

    __pydantic_config__ = STRICT

    card: SuiteCard
    score: Callable[[str, Any, Any], Scores]
    """(task, data, vectors of data.texts) -> scores.

    It raises TrialFailure where the vectors have no score."""
    data: Annotated[Mapping[str, Callable[[], Any]], Field(min_length=1)]
    """Task -> a function that reads its data, and raises UserError for a missing or damaged file"""
    files: Callable[[], list[Path]]
    """Returns the data files, which are part of keys; it raises UserError when one is missing"""
    select: Callable[[Any, Any], float] | None = None
    """(data, vectors) -> the score that selects; None: the scoring function gives it"""
    sentences_dev: int = 0
    """Number of distinct sentences that a dev score embeds, for estimates of the time"""
    sentences_test: int = 0
    """Number of distinct sentences that the test scores embed, for estimates of the time"""
    code_digest: str = ""
    """Digest of a user's file; "" for shipped suites, which change with harness.PROTOCOL"""
    embeds: bool = False
    """Whether the scoring function says itself which sentences it needs: in the place of vectors it
    gets a function from sentences to vectors, and its data need no texts"""
    commits: Callable[[], dict[str, str]] = dict
    """Returns the commits of the Hub's data that are not among the files; repository -> commit"""
    parts: tuple["Suite", ...] = ()
    """Parts that `harness eval` measures and stores one by one; (): the suite as a whole"""

    @property
    def name(self) -> str:
        """The name of the suite."""
        return self.card.name

    @property
    def dev(self) -> str:
        """The task that selects. Raises UserError for a suite that has none."""
        if self.card.dev is None:
            raise UserError(
                f'suite "{self.name}" has no dev score by which a configuration can be chosen; '
                f"use {', '.join(CHOOSING.values())}, or a suite of your own with a dev split "
                f"(docs/evaluation.md)"
            )
        return self.card.dev

    @property
    def tests(self) -> tuple[str, ...]:
        """The tasks whose scores are reported."""
        return tuple(task for task in self.data if task not in self.card.dev_tasks)

    @functools.cached_property  # the data of a suite are kept as long as the suite is
    def dev_alone(self) -> "Suite":
        """The suite without its tests, where a table prints its dev score alone."""
        return replace(self, data={task: self.data[task] for task in self.card.dev_tasks})

    def load(self, task: str) -> Any:
        """The data of a task, which are read once per process."""
        return _loaded(self, task)

    def texts(self, task: str) -> list[str]:
        """The sentences of a task that are known before it is scored."""
        return [] if self.embeds else self.load(task).texts

    def score_dev(self, embed: Embed) -> float:
        """The score on the first dev task, which selects."""
        vectors = Embeddings(embed, self.texts(self.dev), dev=True)
        if self.select:
            data = self.load(self.dev)
            return self.select(data, vectors(data.texts))
        return self.measure(self.dev, vectors).metrics[self.dev]

    def score_test(self, embed: Embed) -> Scores:
        """The scores of all tests and their average; the sentences are embedded in one pass."""
        vectors = Embeddings(embed, (text for task in self.tests for text in self.texts(task)))
        scores = self.joined({task: self.measure(task, vectors) for task in self.tests})
        return scores | self.averaged(scores)

    def joined(self, scores: Mapping[str, Scores]) -> Scores:
        """The scores of several tasks. Raises TrialFailure where two tasks have one of a name."""
        task_of: dict[str, str] = {}
        for task, own in scores.items():
            for metric in own.metrics:
                if (other := task_of.setdefault(metric, task)) != task:
                    raise TrialFailure(
                        f'suite "{self.name}": the functions of the tasks "{other}" and "{task}" '
                        f'both return a score "{metric}"; each score needs a name of its own'
                    )
        return functools.reduce(Scores.__or__, scores.values(), Scores({}))

    def measure(self, task: str, vectors: "Callable[[list[str]], np.ndarray]") -> Scores:
        """The scores of one task. Raises TrialFailure when a user's function gives something else.

        The score of the dev task that selects has its name.
        """
        data = self.load(task)
        returned: Any = self.score(task, data, vectors if self.embeds else vectors(data.texts))
        beginning = f'suite "{self.name}": the function of task "{task}" must return Scores'
        if not isinstance(returned, Scores):
            raise TrialFailure(f"{beginning}({{task: SCORE}}), not a {type(returned).__name__}")
        for metric, value in returned.metrics.items():
            if not isinstance(value, Real) or not math.isfinite(value):
                raise TrialFailure(f"{beginning} of finite numbers; {metric} is {value!r}")
            if metric != task and metric in (*self.data, self.card.average):
                raise TrialFailure(
                    f'{beginning} with names of their own; "{metric}" is that of another one'
                )
        if task == self.card.dev and task not in returned.metrics:
            raise TrialFailure(f'{beginning} with the score "{task}"')
        return returned

    def averaged(self, scores: Scores) -> Scores:
        """The average of the tests, where there is one and no test is missing."""
        tests = self.card.averages.get(self.card.average or "", self.tests)
        if self.card.average is None or not tests or not set(tests) <= set(scores.metrics):
            return Scores({})
        # The papers average the rounded scores that they print.
        mean = sum(round(scores.metrics[task], 2) for task in tests) / len(tests)
        if not set(tests) <= set(scores.uncertainty):
            return Scores({self.card.average: mean})
        spread = of_mean(mean, [scores.uncertainty[task] for task in tests])
        return Scores({self.card.average: mean}, uncertainty={self.card.average: spread})

    def digest(self) -> str:
        """The digest of the suite's data files and of a user's code.

        Raises UserError when a file is missing.
        """
        return self.code_digest + digest_files(self.files())

    def dumped_card(self) -> str | None:
        """The card as JSON for a record; None for a shipped suite.

        That of a user's suite says which data it has, unless a file is missing.
        """
        if not self.code_digest or self.card.origins:  # a task of mteb has its revision there
            return self.card.dumped()
        try:
            return replace(self.card, data=digest(self.digest())).dumped()
        except UserError:
            return self.card.dumped()


@functools.cache
def _loaded(suite: Suite, task: str) -> Any:
    """The data of a task. Raises UserError where they have no list of sentences, but need one."""
    beginning = f'suite "{suite.name}": the data of task "{task}" '
    with explained(f"{beginning}cannot be read: "):
        data = suite.data[task]()
        sentences: object = None if suite.embeds else data.texts
    if suite.embeds or (
        isinstance(sentences, list)
        and sentences
        and all(isinstance(text, str) for text in sentences)
    ):
        return data
    raise UserError(f"{beginning}need a list of sentences as `texts`, not {sentences!r}")


def register(
    card: SuiteCard | str,
    data: Mapping[str, Callable[[], Data]],
    files: Callable[[], list[Path]],
    **options: Any,
) -> "Callable[[Callable[[str, Any, np.ndarray], Scores]], Suite]":
    """Decorator that makes a suite of a scoring function.

    `card`: the name of the suite and how it is printed; a name alone is enough for a user's suite
    that has neither a dev task nor an average. `data`, `files` and `options`: the fields of
    `Suite`.
    """
    own = CARDS.get(card, SuiteCard(card)) if isinstance(card, str) else card
    return lambda score: Suite(own, score, data, files, **options)


@once
def suite(name: str) -> Suite:
    """The suite called `name`, or that of mteb, of a Python file, of a table or of a folder.

    Raises UserError for an unknown suite.
    """
    if name.startswith(MTEB):
        check_name(name)
        made: Suite = importlib.import_module(MTEB_SUITES).mteb_suite(name)
        return made
    if is_suite_table(name):
        found: Suite = importlib.import_module(PAIR_TABLES).pair_suite(name)
        return found
    if script := suite_file(name):
        return _own(suite_code(here(script)))
    if is_suite_folder(name):
        judged: Suite = importlib.import_module(JUDGED).judged_suite(name)
        return judged
    check_name(name)
    values = vars(importlib.import_module(SUITE_MODULES[name])).values()
    return next(each for each in values if isinstance(each, Suite) and each.name == name)


def choosing(measured: Suite, metric: str | None) -> Suite:
    """The suite by whose dev score configurations are compared.

    measured: the suite of the trials, whose dev score chooses checkpoints. metric: the dev score of
    any shipped suite; None: that of `measured`. Raises UserError for a test score and for another
    name.
    """
    if metric in (None, measured.card.dev):
        return measured
    if metric in CHOOSING:
        return suite(CHOOSING[metric])
    test = metric_named(str(metric))
    if metric in (*measured.tests, *measured.card.headings, measured.card.average) or (
        test and test.split == "test"
    ):
        own = measured if metric in measured.data or test is None else suite(test.suite)
        raise UserError(
            f'"{metric}" is a test score, and test scores never select; '
            f'use "{own.card.dev or measured.dev}"'
        )
    valid = dict.fromkeys([measured.dev, *CHOOSING])
    raise UserError(f'there is no dev score "{metric}"{suggest(str(metric), valid)}')


def check_name(name: str) -> None:
    """Raises UserError for the name of no suite and for a file that is not there.

    Nothing is imported of a user's file or of mteb.
    """
    if (script := suite_file(name)) or is_suite_table(name):
        regular_file(here(script or Path(split_name(name)[0])), "suite: ")
    elif name.startswith(MTEB):
        check_named(name)
    elif not (is_suite_folder(name) or name in CARDS):
        if os.path.isfile(here(Path(name))):  # noqa: PTH113 - it takes any text
            raise UserError(f'suite "{name}" is there, but only {known_endings()} or .py are read')
        raise UserError(
            f'unknown suite "{name}"{suggest(name, CARDS)}; the path of a Python file, of a table '
            f"of scored pairs, or of a folder with queries is valid, too, and mteb:TASK"
        )


def suite_file(name: str) -> Path | None:
    """The Python file that the name of a suite is, or that follows `mteb:`; None: there is none."""
    path = split_name(name.removeprefix(MTEB))[0]
    return Path(path) if path.endswith(".py") else None


def is_suite_table(name: str) -> bool:
    """Whether the name of a suite is that of tables with a user's scored pairs."""
    return ending(Path(split_name(name)[0])) in FORMATS


def is_suite_folder(name: str) -> bool:
    """Whether the name of a suite is that of a folder; a shipped suite goes before a folder."""
    return name not in CARDS and os.path.isdir(here(Path(name)))  # noqa: PTH112 - it takes any text


def has_files(name: str) -> bool:
    """Whether the name of a suite is a path of a user's files."""
    return suite_file(name) is not None or is_suite_table(name) or is_suite_folder(name)


def suite_code(path: Path) -> UserCode:
    """The content of a user's file with a suite."""
    regular_file(path, "suite: ")
    return user_code(path.resolve(), "suite: ")


@functools.cache
def _own(code: UserCode) -> Suite:
    """The suite of a user's file. A file that has changed has another digest and is read again."""
    module = code.module("suite")
    # A user's file may import a shipped suite, for example to use its scoring function.
    shipped = [suite(name) for name in CARDS if SUITE_MODULES[name] in sys.modules]
    every = {id(value): value for value in vars(module).values() if isinstance(value, Suite)}
    own = [each for each in every.values() if each not in shipped]
    if len(own) != 1:
        raise UserError(
            f"{code.path} must hold one suite, which is a function under @register; it holds "
            f"{len(own)}"
        )
    [registered] = own
    check_suite(registered, code.path)
    files = functools.partial(listed_paths, registered.files, code.path)
    return replace(registered, code_digest=code.text_digest, files=files)
