"""The kinds of what a user's suite gives: a wrong one is a sentence and not a failure later."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UserError, explained, suggest
from harness.evaluation.catalogue import CARDS


class _Kinds(BaseModel):
    model_config = ConfigDict(strict=True, from_attributes=True)


class _CardFields(_Kinds):
    """The kinds of the fields of a card."""

    name: Annotated[str, Field(min_length=1)]
    headings: Mapping[str, str]
    unit: str
    protocol: str
    average: str | None
    dev_tasks: tuple[str, ...]
    decimals: int | None


class _SuiteFields(_Kinds):
    """The kinds of what a suite is registered with."""

    card: _CardFields
    score: Callable[..., Any]
    data: Annotated[Mapping[str, Callable[[], Any]], Field(min_length=1)]
    files: Callable[[], Any]
    select: Callable[..., Any] | None
    sentences_dev: int
    sentences_test: int
    embeds: bool


def check_suite(found: Any, path: Path) -> None:
    """Check the suite in the file `path`.

    Raises UserError when a part of it is of the wrong kind, or when it has a shipped suite's name.
    """
    try:
        _SuiteFields.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        part = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {part} of the suite: {first['msg']}") from None
    if found.card.name in CARDS:
        raise UserError(
            f'{path} calls its suite "{found.card.name}", which is the name of a shipped one; '
            f"choose another name"
        )
    for task in found.card.dev_tasks:
        if task not in found.data:
            raise UserError(
                f'{path}: the data have no dev task "{task}"{suggest(task, found.data)}'
            )


def read_data(name: str, task: str, read: Callable[[], Any], *, texts: bool) -> Any:
    """The data of a task of the suite `name`.

    Raises UserError when `read` raises or gives no data with a list of sentences, where `texts`
    says that these are needed.
    """
    with explained(f'suite "{name}": the data of task "{task}" cannot be read: '):
        data = read()
        found: object = data.texts if texts else None
    if texts and not (
        isinstance(found, list) and found and all(isinstance(text, str) for text in found)
    ):
        raise UserError(
            f'suite "{name}": the data of task "{task}" need a list of sentences as `texts`, '
            f"not {found!r}"
        )
    return data


def checked_files(files: Callable[[], Any], path: Path) -> Callable[[], list[Path]]:
    """The same function, which raises UserError when it gives anything but a list of paths."""

    def call() -> list[Path]:
        with explained(f"{path}: files() raises "):
            given = files()
        if not (isinstance(given, list) and all(isinstance(each, Path) for each in given)):
            raise UserError(f"{path}: files() must give a list of paths, not {given!r}")
        return given

    return call
