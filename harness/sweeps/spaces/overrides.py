"""A search space as it is asked for: its name or file, and what narrows it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from harness.errors import UserError, suggest
from harness.files import shipped
from harness.inputs import check_types, is_file

YAML_SUFFIXES = (".yaml", ".yml")
SPACE_FOLDERS = ("search_spaces", "search_spaces/ablations")
"""The folders of the shipped search spaces"""


@dataclass(frozen=True)
class Overrides:
    """Changes of a search space; they go before its file.

    Raises UserError for a value of another type, and for seeds and subsets that are none.
    """

    methods: Sequence[str] = ()
    """Names or paths of methods; empty: all of the space or of the table"""
    encoders: Sequence[str] = ()
    """Encoders in the place of those of the space or of the paper; a text is one of them"""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters that get one value in every method that has them, and are not searched; a
    text is read as the field of the method says"""
    configurations: int | None = None
    """At most so many configurations per search and round; of a grid they are drawn at random"""
    seeds: Sequence[int] = ()
    """Final seeds, which may be a text `0,1,2`; empty: those of the space"""
    subsets: Sequence[int] = ()
    """Final label subsets, in the same way"""
    published: bool = False
    """Whether the papers' own values are run instead of a search"""

    def __post_init__(self) -> None:
        for name, values in {
            "method": self.methods, "encoder": _listed(self.encoders),
            "a name in values": self.values,
        }.items():  # fmt: skip
            for value in values:
                check_types({name: str | Path}, {name: value})
        object.__setattr__(self, "methods", tuple(map(str, self.methods)))
        object.__setattr__(self, "encoders", tuple(dict.fromkeys(map(str, _listed(self.encoders)))))
        object.__setattr__(self, "seeds", whole_numbers(self.seeds, "--seeds"))
        object.__setattr__(self, "subsets", whole_numbers(self.subsets, "--subsets"))
        check_types(get_type_hints(type(self)), vars(self))

    def searched(self, axes: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """The axes that are left to a search whose method gets these values."""
        if self.published:
            return {}
        return {name: axis for name, axis in axes.items() if name not in values}


def whole_numbers(numbers: int | str | Sequence[int], option: str) -> tuple[int, ...]:
    """Seeds or subsets, which may be a text like `0,1,2`; what is named twice counts once.

    Raises UserError for anything else.
    """
    text = ",".join(map(str, _listed(numbers)))
    parts = text.split(",") if text else []
    # The length first: Python refuses to read a number of thousands of digits.
    if all(part.strip().isdecimal() and len(part) < 20 and int(part) < 2**32 for part in parts):
        return tuple(dict.fromkeys(map(int, parts)))
    raise UserError(
        f"{option} {text}: write whole numbers from 0 to 4294967295 with commas between "
        f'them, for example "0,1,2"'
    )


def _listed(values: Any) -> Iterable[Any]:
    """The values, of which a text or a number is a single one."""
    return values if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def shipped_spaces() -> dict[str, Path]:
    """Name -> file of the search spaces that come with harness."""
    root = shipped("search_spaces").parent
    return {
        path.stem: path for name in SPACE_FOLDERS for path in sorted((root / name).glob("*.yaml"))
    }


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
    from harness.plugin.registry import names  # only where the name is wrong

    if name in names():
        raise UserError(
            f'"{space}" is a method, and the search space comes last, behind the methods: a .yaml '
            f"file or a name from `harness list spaces`"
        )
    raise UserError(
        f'"{space}" is not a search space: the last argument is a .yaml file or the name of a '
        f"shipped space{suggest(space, shipped_ones)}"
    )
