"""The search spaces by their names and files."""

from pathlib import Path

from harness.errors import UserError, suggest
from harness.files import shipped
from harness.inputs import is_file

YAML_SUFFIXES = (".yaml", ".yml")
SPACE_FOLDERS = ("search_spaces", "search_spaces/ablations")
"""The folders of the shipped search spaces"""


def shipped_spaces() -> dict[str, Path]:
    """Name -> file of the search spaces that come with harness."""
    root = shipped("search_spaces").parent
    found = [path for name in SPACE_FOLDERS for path in sorted((root / name).glob("*.yaml"))]
    return {path.stem: path for path in found}


def space_name(space: Path | str) -> str:
    """The name of a search space; of a file, that without its ending, which may have dots in it."""
    path = Path(space)
    return path.stem if path.suffix in YAML_SUFFIXES else path.name


def space_file(space: str) -> Path:
    """The file of a search space, which has a path, or a name if it is shipped.

    An existing file goes before a shipped one. Its path in a checkout, such as
    `search_spaces/NAME.yaml`, means the shipped NAME where there is no such file, so that printed
    commands work outside a checkout too. Raises UserError for a name that is not a search space.
    """
    path, shipped_ones = Path(space), shipped_spaces()
    if path.suffix in ("", *YAML_SUFFIXES) and is_file(path):
        return path
    in_a_checkout = path.suffix == ".yaml" and path.parent.as_posix() in SPACE_FOLDERS
    name = path.stem if in_a_checkout else space
    if name in shipped_ones:
        return shipped_ones[name]
    if path.suffix in YAML_SUFFIXES:
        return path  # the reader of the file says that it does not exist
    raise UserError(
        f'"{space}" is not a search space: the last argument is a .yaml file or the name of a '
        f"shipped space{suggest(space, shipped_ones)}"
    )
