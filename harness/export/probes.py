"""Texts on which an exported model is compared with the method that it comes from."""

import numpy as np

from harness.errors import UserError

PROBES = (
    "A man is playing a guitar.",
    "a man is playing a guitar",
    "Two dogs run across a field of high grass",
    "Is this sentence a question?",
    'She said: "No."',
    "  Spaces   stand\tin front, between and behind.  ",
    "UPPER CASE",
    "x",
    "",
    "3.14159, 2 + 2 = 4; 50 %",
    "Ein Satz mit Umlauten: äöü ß.",
    "日本語の文 and a \N{GRINNING FACE}",
    "It is longer than all the others, and so it shows what padding does to those around it: " * 2,
    "a sentence that does not end " * 400,
)
"""Sentences with and without a full stop, of no word and of more words than there are positions"""
LARGEST_DIFFERENCE = 1e-5
"""The largest difference of a value, as a share of the largest value where that is above 1"""


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of a value, as in LARGEST_DIFFERENCE; infinite for other shapes."""
    if ours.shape != theirs.shape or not np.isfinite(theirs).all():
        return float("inf")
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(ours).max()))


def check_equal(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    """Raise UserError when vectors of PROBES differ. what: the exported model, in the message."""
    found = difference(ours, theirs)
    if found > LARGEST_DIFFERENCE:
        raise UserError(
            f"{what} gives other embeddings than the trial (they differ by {found:.2g}), so "
            f"nothing was written"
        )
