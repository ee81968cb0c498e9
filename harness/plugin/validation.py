"""Validation of what a plugin declares: a wrong type is a sentence and not a failure later."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    PositiveFloat,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)

from harness.plugin.stage import Artefact, Stage

_STRICT = ConfigDict(strict=True)
_ANSWERS: dict[str, tuple[str, TypeAdapter[Any]]] = {
    "corpora": ("a dict of stream -> corpus", TypeAdapter(dict[str, str], config=_STRICT)),
    "models": ("a list of names", TypeAdapter(list[str], config=_STRICT)),
    "files": ("a list of paths", TypeAdapter(list[Path], config=_STRICT)),
    "stages": ("a list of stages", TypeAdapter(list[InstanceOf[Stage]], config=_STRICT)),
    "artefacts": ("a list of artefacts", TypeAdapter(list[InstanceOf[Artefact]], config=_STRICT)),
}
"""Name of a class method -> what it must return, in words and as a type"""


class _StageFields(BaseModel):
    """The kinds of those fields of a stage that the plan and the loop compute with."""

    model_config = ConfigDict(strict=True, from_attributes=True, allow_inf_nan=False)

    name: str
    trains: Mapping[str, str]
    streams: Annotated[Mapping[str, PositiveInt], Field(min_length=1)]
    losses: Mapping[str, float | Callable[..., Any]]
    epochs: PositiveFloat | None
    max_steps: PositiveInt | None
    accumulation: PositiveInt


def answer_problem(hook: str, answer: Any) -> str:
    """The end of a sentence about a wrong answer; "" for a right one.

    hook: the name of the class method that gave the answer, such as `stages`.
    """
    wanted, kind = _ANSWERS[hook]
    try:
        kind.validate_python(answer)
    except ValidationError as error:
        found = type(answer).__name__
        if error.errors()[0]["loc"]:  # it is the right container of wrong elements
            found = f"{found} with {error.errors()[0]['input']!r}"
        return f"must return {wanted}, but it returned {found}"
    stages = answer if hook == "stages" else []
    return next(filter(None, map(_stage_problem, stages)), "")


def _stage_problem(stage: Stage) -> str:
    try:
        _StageFields.model_validate(stage)
    except ValidationError as error:
        first = error.errors()[0]
        part = ".".join(str(each) for each in first["loc"])
        return f'gives a stage "{stage.name}" with {part} = {first["input"]!r}: {first["msg"]}'
    if stage.epochs is None and stage.max_steps is None:
        return f'gives a stage "{stage.name}" without an end: it has neither epochs nor max_steps'
    return ""
