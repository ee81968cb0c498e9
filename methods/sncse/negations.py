"""Soft negatives: the negation of each sentence, as a user's file or a rule has it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.corpora import source
from harness.data.templates import hard_prompt
from harness.data.tokens import word_pieces
from harness.errors import UserError, explained
from harness.inputs import read_text


def read_negations(path: Path) -> dict[str, str]:
    """Sentence -> its negation, of a file in the format of the released code.

    Raises UserError for a line that is no JSON list of two texts.
    """
    negations: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue  # at the end, for example
        with explained(f'{path}, line {number}: ["SENTENCE", "ITS NEGATION"] was expected: '):
            pair = json.loads(line)
        if not isinstance(pair, list) or [type(text) for text in pair] != [str, str]:
            raise UserError(f'{path}, line {number}: ["SENTENCE", "ITS NEGATION"] was expected')
        negations[pair[0].strip()] = pair[1]
    return negations


def negated_pieces(
    tokenizer: Any, corpus: str, path: Path | None, template: str
) -> Mapping[str, np.ndarray]:
    """Word pieces of the negations of a corpus, for a place in a template (sncse.md, section 2).

    Returns `ids` and `starts`: the pieces of item k are ids[starts[k]:starts[k + 1]].
    """
    sentences, negations = source(corpus), read_negations(path) if path else {}
    spaced = hard_prompt(tokenizer, template).leading_space
    space = " " if spaced else ""
    texts = (
        space + negations.get(text.strip(), f"Not {text}")
        for text in sentences.corpus(sentences.paths()).columns[0]
    )
    ids, starts = word_pieces(tokenizer, texts)
    return {"ids": ids, "starts": starts}
