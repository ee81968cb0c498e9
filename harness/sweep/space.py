"""A search space: the file that says which configurations are tried, and how one is chosen."""

import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.plugin.config import Setting
from harness.sweep.yaml_lines import Document, Location, read_document

Values = dict[str, Any]
"""Hyperparameter -> value"""
SEEDS = 2**32
"""Seeds and the numbers of label subsets are below this, which is the limit of numpy's seeds"""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Span(_Part):
    """Every value from `from` to `to`, both included, `step` apart."""

    start: float = Field(alias="from")
    stop: float = Field(alias="to")
    step: float = Field(gt=0)

    def values(self) -> list[float | int]:
        """The values, computed as exact decimals, so that 0.01 + 2 * 0.01 is 0.03."""
        return _span(self.start, self.stop, self.step)


class Between(_Part):
    """Every value between the two best of the round before, both included, `step` apart.

    D2CSE searches in this way (d2cse.md, section 3).
    """

    between: Literal["best_two"]
    step: float = Field(gt=0)


class SamplerRange(_Part):
    """A range for a sampler; it is continuous, or discrete when it has a step."""

    low: float
    high: float
    log: bool = False
    step: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _can_be_drawn_from(self) -> "SamplerRange":
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError("a log range needs a low above 0")
        if self.log and self.step is not None:
            raise ValueError("a range has either log or step, not both")
        return self


class Sampler(_Part):
    """An Optuna sampler with a budget of configurations."""

    name: Literal["tpe", "random", "qmc"] = "tpe"
    configurations: int = Field(ge=1)
    seed: int = 0


def _axis_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "between" if "between" in value else "span"
    return "list"


Axis = Annotated[
    Annotated[list[Any], Tag("list"), Field(min_length=1)]
    | Annotated[Span, Tag("span")]
    | Annotated[Between, Tag("between")],
    Discriminator(_axis_kind),
]
Round = dict[str, Axis]
"""Hyperparameter -> the values that a round tries"""
Choice = Annotated[
    Annotated[SamplerRange, Tag("range")] | Annotated[list[Any], Tag("list"), Field(min_length=1)],
    Discriminator(lambda value: "list" if isinstance(value, list) else "range"),
]


class MethodSpace(_Part):
    """The configurations of one method that are tried.

    They are a grid, rounds of grids, or ranges for a sampler. Without any of these, there is a
    single configuration.
    """

    set: Values = {}
    grid: Round | None = None
    rounds: list[Round] | None = Field(None, min_length=1)
    ranges: dict[str, Choice] | None = Field(None, min_length=1)
    sampler: Sampler | None = None

    @field_validator("set", mode="before")
    @classmethod
    def _empty(cls, given: Any) -> Any:
        return given or {}  # `set:` with nothing behind it is None in YAML


class Select(_Part):
    """The metric by which a configuration is chosen."""

    metric: str = "stsb-dev"
    mode: Literal["max"] = "max"


Numbers = Annotated[list[Annotated[int, Field(ge=0, lt=SEEDS)]], Field(min_length=1)]


class Repeats(_Part):
    """The seeds on which a configuration is run, and the label subsets.

    The label subsets matter only to a configuration that uses a share of the labels.
    """

    seeds: Numbers
    subsets: Numbers = [0]


class Space(_Part):
    """The content of a search-space file."""

    setting: Setting = "unsup"
    suite: str = "sts"
    select: Select = Select()
    search: Repeats = Repeats(seeds=[42])
    final: Repeats = Repeats(seeds=[0, 1, 2])
    encoders: list[str] = Field(min_length=1)
    set: Values = {}
    methods: dict[str, MethodSpace | None] = Field(min_length=1)


def load_space(path: Path) -> tuple[Space, Document]:
    """The search space of a file, and the document that knows its lines.

    Raises UserError with file and line for whatever is wrong with the space itself. Hyperparameters
    are checked against their methods later, by `harness.sweep.overrides.searches`.
    """
    document = read_document(path)
    space = document.parse(Space)
    _check_selector(space, document)
    for name, part in space.methods.items():
        _check_method(name, part or MethodSpace(), document)
    return space, document


def _check_selector(space: Space, document: Document) -> None:
    try:
        measured = suite(space.suite)
        dev = measured.dev
    except UserError as error:
        raise document.error(("suite",), str(error)) from None
    metric = space.select.metric
    location: Location = ("select", "metric") if "select" in document.content else ("suite",)
    if metric in (*measured.tests, measured.card.average):
        raise document.error(
            location, f'"{metric}" is a test score, and test scores never select; use "{dev}"'
        )
    if metric != dev:
        raise document.error(
            location, f'suite {space.suite} has no dev score "{metric}"; valid: {dev}'
        )


def _check_method(name: str, part: MethodSpace, document: Document) -> None:
    location: Location = ("methods", name)
    kinds = [kind for kind in ("grid", "rounds", "ranges") if getattr(part, kind) is not None]
    if len(kinds) > 1:
        raise document.error(
            location, f"{' and '.join(kinds)} exclude each other; keep one of them"
        )
    if part.grid is not None and not part.grid:
        raise document.error(
            (*location, "grid"), "the grid is empty; name a hyperparameter, or leave grid out"
        )
    if (part.ranges is None) != (part.sampler is None):
        raise document.error(location, "ranges need a sampler, and a sampler needs ranges")
    for number, axes in enumerate(rounds(part)):
        where = (*location, "grid") if part.grid is not None else (*location, "rounds", number)
        for key, axis in axes.items():
            if isinstance(axis, Between) and (number == 0 or key not in rounds(part)[number - 1]):
                raise document.error(
                    (*where, key), "between needs a round before it that varies the same key"
                )
            if isinstance(axis, Span) and axis.stop < axis.start:
                raise document.error(
                    (*where, key), f"there is no value from {axis.start} to {axis.stop}"
                )


def rounds(part: MethodSpace) -> list[Round]:
    """The rounds of a method: a grid is one round; a single configuration and ranges have none."""
    return part.rounds or ([part.grid] if part.grid else [])


def expand(axes: Round, scored: list[tuple[Values, float]]) -> list[Values]:
    """Every combination of a round's values, exactly once.

    `scored`: the configurations of the round before with their scores, for `between`.
    """
    columns = {key: _axis_values(key, axis, scored) for key, axis in axes.items()}
    combinations = [
        dict(zip(columns, values, strict=True)) for values in itertools.product(*columns.values())
    ]
    # A value that is written twice, as in [64, 64], would give equal configurations.
    return list({repr(combination): combination for combination in combinations}.values())


def _axis_values(key: str, axis: Any, scored: list[tuple[Values, float]]) -> list[Any]:
    if isinstance(axis, Span):
        return axis.values()
    if not isinstance(axis, Between):
        return list(axis)
    best_first = [values[key] for values, _ in sorted(scored, key=lambda pair: -pair[1])]
    best_two = list(dict.fromkeys(best_first))[:2]
    return _span(min(best_two), max(best_two), axis.step)


def _span(start: float, stop: float, step: float) -> list[float | int]:
    # `str` gives the digits that stand in the file.
    first, last, by = (Decimal(str(number)) for number in (start, stop, step))
    count = math.floor((last - first) / by) + 1
    values = [first + by * index for index in range(count)]
    return [int(value) if value == value.to_integral_value() else float(value) for value in values]
