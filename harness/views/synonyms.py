"""Synonym replacement: one random word of a sentence becomes a synonym.

SimCSE compares its dropout views with this (simcse.md, section 2.5).
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.batching import TextBatch, interleaved, pad
from harness.data.corpora import source
from harness.data.tokens import Template, word_pieces
from harness.errors import UserError

Thesaurus = Mapping[str, Sequence[str]]
"""Word in lower case -> its synonyms"""


def read_thesaurus(path: Path) -> dict[str, list[str]]:
    """Read a thesaurus in the format of Moby: `word,synonym,synonym,...` on each line.

    Raises UserError when there is no such file, when it is not UTF-8 text, and when a line has no
    synonym.
    """
    if not path.is_file():
        raise UserError(f'synonyms "{path}": there is no such file')
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    thesaurus: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        word, *synonyms = [part.strip() for part in line.split(",")]
        if not line.strip():
            continue  # a blank line at the end, for example
        if not word or not any(synonyms):
            raise UserError(
                f"{path}, line {number}: a word and its synonyms, separated by commas, "
                f"were expected"
            )
        thesaurus[word.lower()] = [synonym for synonym in synonyms if synonym]
    return thesaurus


def replace_word(sentence: str, thesaurus: Thesaurus, generator: random.Random) -> str:
    """The sentence with one of its known words replaced; unchanged when it has none."""
    words = sentence.split()
    known = [index for index, word in enumerate(words) if word.lower() in thesaurus]
    if known:
        chosen = generator.choice(known)
        words[chosen] = generator.choice(list(thesaurus[words[chosen].lower()]))
    return " ".join(words)


def synonym_pieces(corpus: str, path: Path, tokenizer: Any) -> dict[str, np.ndarray]:
    """Word pieces of a corpus in which every sentence had one word replaced.

    path: of the thesaurus. Returns `ids` and `starts`: the pieces of item k are
    ids[starts[k]:starts[k + 1]]. The words are drawn with a fixed seed, once for all trials.
    """
    # A generator of its own: the global one belongs to the trial that happens to build this.
    found, thesaurus, generator = source(corpus), read_thesaurus(path), random.Random(0)
    sentences = found.read(found.paths()).columns[0]
    texts = (replace_word(text, thesaurus, generator) for text in sentences)
    ids, starts = word_pieces(tokenizer, texts)
    return {"ids": ids, "starts": starts}


def synonym_views(
    texts: TextBatch, pieces: Mapping[str, np.ndarray], template: Template, limit: int, pad_id: int
) -> TextBatch:
    """Two views of each sentence: itself, and itself with a word replaced.

    pieces: as from `synonym_pieces`. limit: the most word pieces of a sentence.
    """
    ids, starts = pieces["ids"], pieces["starts"]
    rows = [ids[starts[item] : starts[item + 1]][:limit] for item in texts.items.tolist()]
    replaced, mask = pad(rows, template, pad_id)
    second = texts.replaced(replaced, mask).to(texts.input_ids.device)
    return interleaved(texts, second, pad_id)
