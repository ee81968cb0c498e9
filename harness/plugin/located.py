"""Methods that a user's file names by name or by the path of a plugin: a space, or a paper."""

from collections.abc import Iterable
from pathlib import Path

from harness.document import Document, Location
from harness.errors import UserError, suggest
from harness.inputs import kind_of
from harness.plugin import registry


def plain_name(named: str) -> str:
    """The name of a method that a file names: of a path, that of its file or folder."""
    return registry.name_of(Path(named)) if is_path(named) else named


def located(named: str, document: Document, where: Location) -> str:
    """The locator of a method that stands in a file: its name, or an absolute path.

    A path starts at the folder of the file, or else at the working directory. `where`: the place
    in the file. Raises UserError with its line for a method that is not there.
    """
    shipped = registry.names()
    if named in shipped:
        return named
    if not is_path(named):
        raise document.error(where, f'unknown method "{named}"{suggest(named, shipped)}')
    beside = document.path.parent / named
    try:
        return str(registry.locate(str(beside) if kind_of(beside) != "nothing" else named))
    except UserError as error:
        if kind_of(beside) != "nothing" or kind_of(Path(named)) != "nothing":
            raise document.error(where, str(error)) from None
        near = suggest(named, (*_plugins_near(named, beside), *shipped))
        raise document.error(where, f'unknown method "{named}"{near}') from None


def is_path(named: str) -> bool:
    """Whether a file names a method by its path, and not by its name."""
    return "/" in named or named.endswith(".py")


def _plugins_near(named: str, beside: Path) -> Iterable[str]:
    """The plugins in the folder in which a path does not exist, written as the path is."""
    folder, slash, _ = named.rpartition("/")
    for place in {beside.parent, Path(folder)}:
        for file in (*place.glob("*.py"), *place.glob("*/__init__.py")):
            name = file.parent.name if file.name == "__init__.py" else file.name
            yield f"{folder}{slash}{name}"
