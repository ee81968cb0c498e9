"""Overlap of corpora with test sets: the same texts, to the letter or but for their form.

A test of pairs leaks where both texts of a pair stand together in one item of the corpus. A text of
it alone tells nothing of the pair's score: SNLI and the STS sets share captions of images, and
unlabelled text has what everybody quotes.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from harness.arrays import SharedArrays
from harness.data.corpora import source
from harness.data.readers import Corpus
from harness.data.sts_pairs import Pairs
from harness.errors import UserError
from harness.evaluation.suites import Suite, suite
from harness.files import cache_folder, digest_of

LOOKED_AT = ("sts", "graded")
"""The suites at whose tests `harness show CORPUS` looks"""
OVERLAP_FIGURES = ("sentences", "exact", "normalised", "pairs", "pairs_together")
"""The figures of a test: its distinct sentences; those of them that the corpora have to the letter;
in small letters and without punctuation and spaces; its pairs; those of them whose two texts stand
together in one item, in that form. A test that is not of pairs has 0 pairs"""
_FORM = re.compile(r"[\W_]+")
_PARTS = OVERLAP_FIGURES[1], OVERLAP_FIGURES[2], OVERLAP_FIGURES[4]
"""The figures that are counts of marks"""


@dataclass(frozen=True)
class Overlap:
    """Counts of the part of a test that a corpus has; the figures are those of OVERLAP_FIGURES."""

    task: str
    figures: Mapping[str, int]
    problem: str = ""
    """Why the test could not be looked at; "": it could"""


def normal_form(text: str) -> str:
    """The letters and digits of a text, in small letters."""
    return _FORM.sub("", text.casefold())


def overlaps(corpus: Corpus) -> Iterator[Overlap]:
    """The overlap of a corpus with every test of `LOOKED_AT`; all columns count."""
    tests: dict[str, Any] = {}
    problems: dict[str, str] = {}
    tasks = [(known, task) for known in map(suite, LOOKED_AT) for task in known.tests]
    for known, task in tasks:
        try:
            tests[task] = known.load(task)
        except UserError as error:
            problems[task] = str(error)
    marks = dict(zip(tests, _marks(corpus, list(tests.values())), strict=True))
    for _, task in tasks:
        figures = _figures(tests[task], marks[task]) if task in tests else {}
        yield Overlap(task, figures, problems.get(task, ""))


def contamination(corpora: Collection[str], measured: Suite) -> dict[str, float]:
    """Overlap of training corpora with a suite's tests: `task/figure` -> its count.

    The figures are those of OVERLAP_FIGURES. They count whole corpora, also where only a share of
    their labels is drawn. Each corpus is compared with a suite once, and what was found is kept in
    the cache. Of a suite that asks for vectors itself (mteb) the texts are not known: it has none.
    Raises UserError when a file is missing.
    """
    kept = [marked.read() for marked in shared_marks(corpora, measured)]
    if not kept:
        return {}
    tests = [measured.load(task) for task in measured.tests]
    figures: dict[str, float] = {}
    for number, (task, test) in enumerate(zip(measured.tests, tests, strict=True)):
        marks = {
            part: reduce(np.logical_or, [marked[f"{part}-{number}"] for marked in kept])
            for part in _PARTS
        }
        figures |= {f"{task}/{name}": float(n) for name, n in _figures(test, marks).items()}
    return figures


def shared_marks(corpora: Collection[str], measured: Suite) -> list[SharedArrays]:
    """Arrays that `contamination` keeps in the cache for each corpus; trials of a sweep share it.

    Raises UserError when a file is missing.
    """
    if measured.embeds or not measured.tests:
        return []
    return [_kept(name, measured) for name in dict.fromkeys(corpora)]


def _kept(name: str, measured: Suite) -> SharedArrays:
    """The marks of the tests for one corpus, as `PART-PLACE OF THE TEST`."""
    origin = source(name)
    paths = origin.paths()
    identity = [origin.digest(paths), measured.name, measured.digest()]
    folder = cache_folder() / "overlaps" / digest_of(identity, 32)

    def build() -> dict[str, np.ndarray]:
        tests = [measured.load(task) for task in measured.tests]
        marks = _marks(origin.corpus(paths), tests)
        return {f"{part}-{at}": each[part] for at, each in enumerate(marks) for part in _PARTS}

    return SharedArrays(folder, f"what {name} has of the suite {measured.name}", build)


def _figures(test: Any, marks: Mapping[str, np.ndarray]) -> dict[str, int]:
    sizes = {"sentences": len(set(test.texts)), "pairs": len(_pairs(test))}
    counts = {part: int(marks[part].sum()) for part in _PARTS}
    return {name: (sizes | counts)[name] for name in OVERLAP_FIGURES}


def _marks(corpus: Corpus, tests: list[Any]) -> list[dict[str, np.ndarray]]:
    """For each test, what the corpus has of its sorted sentences and of its pairs.

    The corpus is gone over once. Only what a test has is kept of it.
    """
    sentences = [sorted(set(test.texts)) for test in tests]
    form = {text: normal_form(text) for texts in sentences for text in texts}
    wanted = set(form.values()) - {""}
    texts: set[str] = set()
    forms: set[str] = set()
    together: set[frozenset[str]] = set()
    for item in zip(*corpus.columns, strict=True):
        texts.update(text for text in item if text in form)
        known = [each for text in item if (each := normal_form(text)) in wanted]
        forms.update(known)
        together.update(map(frozenset, combinations(known, 2)))
    return [
        {
            "exact": np.array([text in texts for text in texts_of_test], bool),
            "normalised": np.array([form[text] in forms for text in texts_of_test], bool),
            "pairs_together": np.array(
                [frozenset(map(form.__getitem__, pair)) in together for pair in _pairs(test)], bool
            ),
        }
        for texts_of_test, test in zip(sentences, tests, strict=True)
    ]


def _pairs(test: Any) -> list[tuple[str, str]]:
    """The pairs of a test; none where its items are no pairs."""
    return list(zip(test.first, test.second, strict=True)) if isinstance(test, Pairs) else []
