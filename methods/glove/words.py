"""Files of word vectors as GloVe releases them: text, with a word and its numbers on each line."""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.errors import UserError

NO_WORD = " "
"""Stands for unknown words, with the number 0 and a vector of zeros. Tokens hold no space, so none
of them is this word."""


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """The words of a file and their vectors; word 0 is NO_WORD.

    Returns `vectors`, (words, width) float32, and `words`, UTF-8 text with a line break between two
    words. Of a repeated word the first line counts. Raises UserError when the file is not a list
    of word vectors.
    """
    # An array takes 4 bytes a number, a list of Python's floats takes 32.
    words, numbers = {NO_WORD: None}, array("f")
    for word, values in _lines(path):
        if len(words) == 1:
            numbers.extend([0.0] * len(values))
        if word not in words:
            words[word] = None
            numbers.extend(values)
    vectors = np.frombuffer(numbers, np.float32).reshape(len(words), -1)
    return {"vectors": vectors, "words": np.frombuffer("\n".join(words).encode(), np.uint8)}


def _lines(path: Path) -> Iterator[tuple[str, list[float]]]:
    """Word and numbers of every line.

    Raises UserError for a line that is not a word and as many finite numbers as the first line
    has, and for a file without lines.
    """
    width = line = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line, text in enumerate(file, start=1):
                fields = text.rstrip().split(" ")
                width = width or len(fields) - 1
                if width < 2:
                    raise UserError(
                        f"{path}, line 1: a word and its numbers were expected (no header)"
                    )
                # A word may hold spaces: the released 840B file has some.
                word, values = " ".join(fields[:-width]), _finite(fields[-width:])
                if not word or not values:
                    raise UserError(
                        f"{path}, line {line}: a word and {width} numbers were expected"
                    )
                yield word, values
    except UnicodeDecodeError:
        raise UserError(f"{path}, after line {line}: not UTF-8 text") from None
    if not line:
        raise UserError(f"{path} holds no word vectors")


def _finite(fields: list[str]) -> list[float]:
    """The numbers; an empty list when one of them is not a finite number."""
    try:
        values = [float(field) for field in fields]
    except ValueError:
        return []
    return values if all(map(math.isfinite, values)) else []
