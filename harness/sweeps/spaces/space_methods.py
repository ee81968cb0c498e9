"""The methods that a search space names, by name or by the path of a plugin."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.errors import UserError, suggest
from harness.inputs import kind_of
from harness.plugin import registry
from harness.sweeps.spaces.space import Space
from harness.sweeps.spaces.yaml_lines import Document, Location, read_document


def plain_name(named: str) -> str:
    """The name of a method that a space names: of a path, that of its file or folder."""
    return registry.name_of(Path(named)) if _is_path(named) else named


def located(named: str, document: Document, where: Location) -> str:
    """Where to load a method from that stands in a space: its name, or an absolute path.

    A path starts at the folder of the space, or else at the working directory. `where`: the place
    in the space. Raises UserError with its line for a method that is not there.
    """
    known = registry.names()
    if named in known:
        return named
    if not _is_path(named):
        raise document.error(where, f'unknown method "{named}"{suggest(named, known)}')
    beside = document.path.parent / named
    try:
        return str(registry.locate(str(beside) if kind_of(beside) != "nothing" else named))
    except UserError as error:
        if kind_of(beside) != "nothing" or kind_of(Path(named)) != "nothing":
            raise document.error(where, str(error)) from None
        near = suggest(named, (*_plugins_near(named, beside), *known))
        raise document.error(where, f'unknown method "{named}"{near}') from None


def locators_of(space: Space, document: Document, wanted: tuple[str, ...]) -> dict[str, str]:
    """Method as the space names it -> where to load it from, for those that are wanted.

    wanted: names or paths of the command line, which go before the paths of the space; empty: all.
    """
    known: dict[str, str] = {}
    for named in space.methods:
        if known.setdefault(plain_name(named), named) != named:
            raise document.error(
                ("methods", named), f'two methods of the space are called "{plain_name(named)}"'
            )
    chosen = {} if wanted else {named: _in_space(named, document) for named in space.methods}
    for given in wanted:
        named = known.get(given, given)
        if named in space.methods and _is_path(named):
            chosen[named] = _in_space(named, document)
            continue
        name = registry.name_of(registry.locate(given))
        if name not in known:
            raise UserError(f'{document.path} has no method "{name}"{suggest(name, known)}')
        chosen[known[name]] = given
    return {named: chosen[named] for named in space.methods if named in chosen}


def plugin_in_spaces(name: str, folders: Iterable[Path]) -> str | None:
    """The path of the plugin that a search space in these folders names by a path.

    None when no space has a plugin with this name.
    """
    for file in (file for folder in folders for file in sorted(folder.glob("*.yaml"))):
        with suppress(UserError):  # another file, or a space with a mistake
            document = read_document(file)
            methods = document.content.get("methods")
            for named in methods if isinstance(methods, dict) else ():
                if isinstance(named, str) and _is_path(named) and plain_name(named) == name:
                    return _in_space(named, document)
    return None


def _in_space(named: str, document: Document) -> str:
    return located(named, document, ("methods", named))


def _is_path(named: str) -> bool:
    return "/" in named or named.endswith(".py")


def _plugins_near(named: str, beside: Path) -> Iterable[str]:
    """The plugins in the folder in which a path does not exist, written as the path is."""
    folder, slash, _ = named.rpartition("/")
    for place in {beside.parent, Path(folder)}:
        for file in (*place.glob("*.py"), *place.glob("*/__init__.py")):
            name = file.parent.name if file.name == "__init__.py" else file.name
            yield f"{folder}{slash}{name}"
