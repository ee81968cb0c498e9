"""Short names that a search space gives to corpora, and what they stand for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.data.corpora import SOURCES
from harness.data.shapes import CorpusName
from harness.sweeps.spaces.yaml_lines import Document


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


def with_whole_names(document: Document, corpora: Mapping[str, CorpusName]) -> Document:
    """The document of a space with whole names in place of the short ones.

    Raises UserError for a short name that is one of a corpus that comes with harness.
    """
    for name in corpora:
        if name in SOURCES:
            raise document.error(
                ("corpora", name),
                "this is the name of a corpus that comes with harness; use another",
            )
    parts = {key: document.content[key] for key in ("set", "methods") if key in document.content}
    return replace(document, content=document.content | replaced_names(parts, corpora))
