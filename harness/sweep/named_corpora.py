"""Short names that a search space gives to corpora, and what they stand for."""

from collections.abc import Mapping
from typing import Any

from harness.data.corpora import SOURCES
from harness.data.corpus_names import CorpusName


def replaced_names(value: Any, corpora: Mapping[str, CorpusName]) -> Any:
    """The value with what the short names stand for, also inside of lists and mappings.

    The whole name of a corpus is what trials, keys and records have, so that it means the same in
    all of them, and on the command line.
    """
    if isinstance(value, Mapping):
        return {key: replaced_names(inner, corpora) for key, inner in value.items()}
    if isinstance(value, list):
        return [replaced_names(inner, corpora) for inner in value]
    return str(corpora[value]) if isinstance(value, str) and value in corpora else value


def taken_name(corpora: Mapping[str, CorpusName]) -> str | None:
    """The first short name that is one of a corpus that comes with the harness."""
    return next((name for name in corpora if name in SOURCES), None)
