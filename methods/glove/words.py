"""Files of word vectors as text: a word and its numbers a line, as GloVe is released."""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.errors import UserError

NO_WORD = " "
"""Stands for unknown words, as number 0 with a vector of zeros; a token has no space, so it is no word of a file"""


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """`vectors` (words, width) float32 and `words`, as UTF-8 text with a line break between them; word 0 is NO_WORD.

    Of a repeated word the first line counts. Raises UserError when the file is not as `_lines` has it.
    """
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
    """Word and numbers of every line. A word may hold spaces (the released 840B file has some).

    Raises UserError for a line that is not a word and as many finite numbers as the first line has, and for a file
    without lines.
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
    """Empty when one is no finite number."""
    try:
        values = [float(field) for field in fields]
    except ValueError:
        return []
    return values if all(map(math.isfinite, values)) else []
