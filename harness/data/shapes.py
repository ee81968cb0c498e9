"""Shapes of corpora: what an item is, and which columns of a table make it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.errors import UserError, suggest

Shape = Literal[
    "sentences", "neighbours", "pairs", "triplets", "scored pairs", "labelled pairs"
]  # fmt: skip
"""What the items of a corpus are. Pairs are two texts with one meaning; neighbours follow one
another in running text"""
ROLES: Mapping[Shape, tuple[str, ...]] = {
    "sentences": ("sentence",),
    "pairs": ("first", "second"),
    "triplets": ("premise", "entailment", "contradiction"),
    "scored pairs": ("first", "second", "score"),
    "labelled pairs": ("premise", "hypothesis", "label"),
}
"""Shape -> the roles of its columns, the texts first"""
_LAYOUTS: Sequence[tuple[Shape, tuple[str, ...]]] = (
    ("sentences", ("sentence",)),
    ("sentences", ("text",)),
    ("triplets", ("premise", "entailment", "contradiction")),
    ("triplets", ("sent0", "sent1", "hard_neg")),
    ("triplets", ("anchor", "positive", "negative")),
    ("scored pairs", ("first", "second", "score")),
    ("scored pairs", ("sentence1", "sentence2", "score")),
    ("labelled pairs", ("premise", "hypothesis", "label")),
    ("pairs", ("first", "second")),
    ("pairs", ("sentence1", "sentence2")),
    ("pairs", ("anchor", "positive")),
)
"""The names that columns have in the data sets of the field, in the order of the roles"""


@dataclass(frozen=True)
class Accepts:
    """Marks a field of a configuration that names a corpus, with the shapes that it may have.

    Example:
        pairs: Annotated[str, Accepts("scored pairs")] = Field("stsb-train")
    """

    shapes: tuple[Shape, ...]

    def __init__(self, *shapes: Shape) -> None:
        object.__setattr__(self, "shapes", shapes)


def shape_of_roles(roles: Collection[str]) -> Shape:
    """The shape that has exactly these roles. Raises UserError when none has."""
    for shape, wanted in ROLES.items():
        if set(wanted) == set(roles):
            return shape
    known = {role for wanted in ROLES.values() for role in wanted}
    unknown = sorted(set(roles) - known)
    if unknown:
        raise UserError(f'unknown role "{unknown[0]}"{suggest(unknown[0], known)}')
    raise UserError(
        f"no corpus has the roles {', '.join(sorted(roles))} alone; valid: "
        f"{'; '.join(', '.join(wanted) for wanted in ROLES.values())}"
    )


def recognised(columns: Sequence[str], where: str) -> tuple[Shape, dict[str, str]]:
    """The shape of a table with these columns, and role -> column.

    A score or a label beside a pair must not be overlooked, so pairs and sentences may have no
    further column. Raises UserError when the columns fit no shape, or more than one.
    """
    fitting = [
        (shape, layout)
        for shape, layout in _LAYOUTS
        if set(layout) <= set(columns) and (len(layout) == 3 or set(layout) == set(columns))
    ]
    if len(fitting) == 1:
        [(shape, layout)] = fitting
        return shape, dict(zip(ROLES[shape], layout, strict=True))
    problem = "do not say what the corpus is" if not fitting else "fit more than one shape"
    raise UserError(
        f"{where}: the columns {', '.join(columns)} {problem}; name them behind a question mark, "
        f"as in FILE?first=COLUMN&second=COLUMN&score=COLUMN (roles: "
        f"{'; '.join(', '.join(wanted) for wanted in ROLES.values())})"
    )
