"""The axes of a round: the values that a hyperparameter takes, and the configurations of them."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from harness.inputs import checked_number
from harness.plugin.config import MethodConfig
from harness.plugin.registry import Plugin
from harness.plugin.resolution import resolve

Values = dict[str, Any]
"""Hyperparameter -> value"""
MOST = 1_000_000
"""Configurations of a sampler, which makes them one by one"""
MOST_OF_A_ROUND = 10_000
"""Configurations of a round: each is checked against its method before anything runs, which is to
take seconds"""
MOST_TRIALS = 20_000
"""Trials of all rounds and final seeds of a space, which are made before anything runs"""


class SpacePart(BaseModel):
    """A part of a search space: it refuses unknown keys, and numbers that are none."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False, defer_build=True
    )

    @field_validator("*", mode="wrap")
    @classmethod
    def _number_as_meant(cls, given: Any, parse: ValidatorFunctionWrapHandler) -> Any:
        """Refuse `true` for a number, and whole numbers beyond 64 bits."""
        return checked_number(given, parse(given))


class Span(SpacePart):
    """Every value from `from` to `to`, both included, `step` apart."""

    start: float = Field(alias="from")
    stop: float = Field(alias="to")
    step: float = Field(gt=0)

    @property
    def count(self) -> int:
        """The number of values, which are not made for it."""
        # `str` gives the digits that stand in the file.
        first, last, by = (Decimal(str(number)) for number in (self.start, self.stop, self.step))
        return math.floor((last - first) / by) + 1

    def values(self) -> list[float | int]:
        """The values, computed as exact decimals, so that 0.01 + 2 * 0.01 is 0.03."""
        first, by = Decimal(str(self.start)), Decimal(str(self.step))
        values = [first + by * index for index in range(self.count)]
        return [int(each) if each == each.to_integral_value() else float(each) for each in values]


class Between(SpacePart):
    """Every value between the two best so far, both included, `step` apart.

    D2CSE searches in this way (d2cse.md, section 3).
    """

    between: Literal["best_two"]
    step: float = Field(gt=0)

    def span(self, least: float, most: float) -> Span:
        """The values between these two."""
        return Span(start=least, stop=most, step=self.step)


def _listed(conditions: Any) -> Any:
    """The conditions with a list of values for each hyperparameter, as it may be a single one."""
    if not isinstance(conditions, dict):
        return conditions
    return {key: each if isinstance(each, list) else [each] for key, each in conditions.items()}


When = Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], BeforeValidator(_listed)]
"""Other hyperparameter -> the values of it for which a range applies"""


class SamplerRange(SpacePart):
    """A range for a sampler; it is continuous, or discrete when it has a step.

    Of a hyperparameter that is a whole number, it has the whole numbers.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = Field(None, gt=0)
    when: When = Field(default_factory=dict)
    """Conditions; where they do not hold, the hyperparameter has its usual value"""

    @model_validator(mode="after")
    def _can_be_drawn_from(self) -> "SamplerRange":
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError("a log range needs a low above 0")
        if self.log and self.step is not None:
            raise ValueError("a range has either log or step, not both")
        return self


class WholeRange(SamplerRange):
    """A range of a hyperparameter that is a whole number, as the method's type says."""


class SamplerValues(SpacePart):
    """The values among which a sampler chooses; in a space a list is enough."""

    values: list[Any] = Field(min_length=1)
    when: When = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _plain_list(cls, given: Any) -> Any:
        return {"values": given} if isinstance(given, list) else given


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
Axes = Mapping[str, Any]
"""Axes of a round, or the ranges of a sampler"""


def _choice_kind(value: Any) -> str:
    named = isinstance(value, dict) and "values" in value
    return "values" if named or isinstance(value, list | SamplerValues) else "range"


Choice = Annotated[
    Annotated[SamplerRange, Tag("range")] | Annotated[SamplerValues, Tag("values")],
    Discriminator(_choice_kind),
]


def expand(axes: Round, scored: list[tuple[Values, float]]) -> list[Values]:
    """Every combination of a round's values, exactly once.

    `scored`: all configurations so far with their scores, for `between`.
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
    best_first = sorted(scored, key=lambda pair: -pair[1])
    # A round before the first one that varies it has no value of it.
    best_two = list(dict.fromkeys(values[key] for values, _ in best_first if key in values))[:2]
    return axis.span(min(best_two), max(best_two)).values() if best_two else []


def size_problem(axes: Round, earlier: Sequence[Round]) -> tuple[str, str] | None:
    """The first axis that cannot be, and why; also when the round has too many configurations.

    earlier: the rounds before it, in which nothing is wrong. The configurations are counted and not
    made.
    """
    total, before = 1, numbers(earlier)
    for key, axis in axes.items():
        problem = ""
        if isinstance(axis, Between) and not (earlier and key in earlier[-1]):
            problem = "between needs a round before it that varies the same key"
        elif isinstance(axis, Between) and key not in before:
            problem = "between needs numbers in the round before it"
        elif isinstance(axis, Span) and axis.stop < axis.start:
            problem = f"there is no value from {axis.start} to {axis.stop}"
        if not problem:
            total *= _most_values(axis, before.get(key, ()))
            if total > MOST_OF_A_ROUND:
                problem = f"the round would have more than {MOST_OF_A_ROUND} configurations"
        if problem:
            return key, problem
    return None


def _most_values(axis: Any, before: Sequence[float] = ()) -> int:
    """The number of values of an axis; of `between`, the most that it has between those before."""
    if isinstance(axis, Between):
        return axis.span(before[0], before[-1]).count if before else 1
    return axis.count if isinstance(axis, Span) else len(axis)


def most_configurations(rounds: Iterable[Round]) -> int:
    """The configurations of some rounds that no scores decide; they are counted and not made."""
    return sum(math.prod(_most_values(axis) for axis in axes.values()) for axes in rounds)


def fewest_and_most(rounds: Sequence[Axes], config: MethodConfig) -> tuple[int, int, int]:
    """The fewest and the most configurations of the last of some rounds.

    They differ where an axis lies between the best two values of the rounds before. The third
    number is the most of the fewest that these rounds may have tried as well. `config`: has the
    values from which the first round starts.
    """
    fewest, most, tried, earlier = 1, 1, 1, rounds[:-1]
    for key, axis in rounds[-1].items():
        tried_values = known_values(earlier).get(key, [])
        steps = [each[key].step for each in earlier if isinstance(each.get(key), Between)]
        most *= _most_values(axis, before := numbers(earlier).get(key, ()))
        if isinstance(axis, Between):
            gaps = [*itertools.pairwise(before), *((0, step) for step in steps)]
            size = min((axis.span(*gap).count for gap in gaps), default=1)
            common = min(size, 2)  # the best two
        else:
            size = _most_values(axis)
            if key not in rounds[0]:
                tried_values = [*tried_values, getattr(config, key)]
            values = _typed(config, key, _axis_values(key, axis, []))
            before_this = _typed(config, key, tried_values)
            common = size if steps else sum(value in before_this for value in values)
        fewest, tried = fewest * size, tried * common
    return fewest, most, tried


def known_values(rounds: Iterable[Axes]) -> dict[str, list[Any]]:
    """Hyperparameter -> its values over some rounds; a range has two, and `between` has none."""
    by_key: dict[str, list[Any]] = {}
    for axes in rounds:
        for key, axis in axes.items():
            if isinstance(axis, Between):
                continue
            if isinstance(axis, SamplerValues):
                values = list(axis.values)
            elif isinstance(axis, SamplerRange):
                whole = int if isinstance(axis, WholeRange) else float
                values = [whole(axis.low), whole(axis.high)]
            else:
                values = _axis_values(key, axis, [])
            by_key[key] = [*by_key.get(key, []), *values]
    return by_key


def numbers(rounds: Iterable[Axes]) -> dict[str, list[float]]:
    """Hyperparameter -> its values over some rounds from the least on, where all are numbers."""
    by_key: dict[str, list[float]] = {}
    for key, values in known_values(rounds).items():
        with suppress(TypeError, ValueError):
            floats = sorted(set(map(float, values)))
            if all(map(math.isfinite, floats)):
                by_key[key] = floats
    return by_key


Ranges = Mapping[str, SamplerRange | SamplerValues]
"""Hyperparameter -> what a sampler draws its values from"""


def applies(axis: SamplerRange | SamplerValues, values: Mapping[str, Any]) -> bool:
    """Whether a range applies. `values`: what has been drawn for the ranges above it.

    A range does not apply either when the one on which it depends does not.
    """
    return all(name in values and values[name] in among for name, among in axis.when.items())


def bound(plugin: Plugin, fixed: Values, ranges: Ranges) -> dict[str, SamplerRange | SamplerValues]:
    """The ranges that apply beside the fixed values, with all values in the method's types.

    A condition on a fixed value holds or does not, and is gone afterwards.
    """
    config = resolve(plugin, fixed)
    kept: dict[str, SamplerRange | SamplerValues] = {}
    for name, axis in ranges.items():
        when = {other: _typed(config, other, among) for other, among in axis.when.items()}
        given = {other: getattr(config, other) for other in when if other not in ranges}
        if any(value not in when[other] for other, value in given.items()):
            continue
        left = {other: among for other, among in when.items() if other in ranges}
        if not left.keys() <= kept.keys():
            continue  # the range on which it depends does not apply
        changed: Values = {"when": left}
        if isinstance(axis, SamplerValues):
            changed["values"] = _typed(config, name, axis.values)
        elif is_whole(type(config), name):
            axis = WholeRange(**axis.model_dump())
        kept[name] = axis.model_copy(update=changed)
    return kept


def is_whole(config: type[MethodConfig], name: str) -> bool:
    """Whether a hyperparameter is a whole number, or None."""
    annotation: Any = config.model_fields[name].annotation
    return {*get_args(annotation)} - {type(None)} == {int} or annotation is int


def _typed(config: MethodConfig, name: str, values: list[Any]) -> list[Any]:
    """The values in the type of a hyperparameter: the text "1e-5" becomes 1e-05."""
    annotation: Any = type(config).model_fields[name].annotation
    adapter = TypeAdapter[Any](annotation)
    return [adapter.validate_python(value) for value in values]


def condition_problem(ranges: Ranges) -> tuple[str, str] | None:
    """The first range whose condition cannot be, and why."""
    above: dict[str, SamplerRange | SamplerValues] = {}
    for name, axis in ranges.items():
        for other, among in axis.when.items():
            if other not in above:
                names = f"; above it are: {', '.join(above)}" if above else ""
                return name, f'when names "{other}", which is no range above this one{names}'
            for value in among:
                if not _possible(above[other], value):
                    values = axis_text(above[other])
                    return name, f"when: {other} is never {value!r}; its values: {values}"
        above[name] = axis
    return None


def _possible(axis: SamplerRange | SamplerValues, value: Any) -> bool:
    if isinstance(axis, SamplerValues):
        return value in axis.values
    if not isinstance(value, int | float) or not axis.low <= value <= axis.high:
        return False
    # Steps are decimals, as they are drawn.
    step = axis.step and Decimal(str(axis.step))
    return not step or (Decimal(str(float(value))) - Decimal(str(axis.low))) % step == 0


def axis_text(axis: Any) -> str:
    """An axis of a round or a range of a sampler, as text."""
    if isinstance(axis, SamplerRange | SamplerValues) and axis.when:
        when = [f"{name} {axis_text(among)}" for name, among in axis.when.items()]
        return f"{axis_text(axis.model_copy(update={'when': {}}))}, where {' and '.join(when)}"
    if isinstance(axis, SamplerValues):
        return axis_text(axis.values)
    if isinstance(axis, Between):
        return f"between the two best, step {axis.step:g}"
    if isinstance(axis, SamplerRange):
        step = "" if axis.step is None else f", step {axis.step:g}"
        return f"{axis.low:g} to {axis.high:g}{', log' if axis.log else ''}{step}"
    if isinstance(axis, Span):
        return f"{axis.start:g} to {axis.stop:g}, step {axis.step:g}"
    return ", ".join(map(str, axis))
