"""What of a corpus stands in the test sets: the same texts, to the letter or but for their form."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.data.readers import Corpus
from harness.errors import UserError
from harness.evaluation.suites import suite

LOOKED_AT = ("sts", "graded")
"""The suites whose tests are looked at"""
_FORM = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Overlap:
    """How many of the distinct sentences of a test a corpus has."""

    task: str
    sentences: int
    """Distinct sentences of the test"""
    exact: int
    normalised: int
    """Those that are the same in small letters and without punctuation and spaces"""
    problem: str = ""
    """Why the test could not be looked at; "": it could"""


def normal_form(text: str) -> str:
    """The letters and digits of a text, in small letters."""
    return _FORM.sub("", text.casefold())


def overlaps(corpus: Corpus) -> Iterator[Overlap]:
    """The overlap of a corpus with every test of `LOOKED_AT`; all columns count."""
    texts = {text for column in corpus.columns for text in column}
    forms = _forms(texts)
    for name in LOOKED_AT:
        for task in suite(name).tests:
            try:
                found = set(suite(name).load(task).texts)
            except UserError as error:
                yield Overlap(task, 0, 0, 0, str(error))
                continue
            alike = sum(normal_form(text) in forms for text in found)
            yield Overlap(task, len(found), len(found & texts), alike)


def _forms(texts: Iterable[str]) -> set[str]:
    """The normal forms of texts that have one."""
    return {form for text in texts if (form := normal_form(text))}
