"""Options that several verbs share, and how their text becomes values."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.errors import UserError, suggest

if TYPE_CHECKING:
    from harness.sweep.search import Search
    from harness.trials import store as stores

YAML_SUFFIXES = (".yaml", ".yml")

TargetsArgument = Annotated[
    list[str],
    typer.Argument(
        help="Methods (names or paths; none: all of the space), then the search space "
        "(a name from `harness list spaces`, or a YAML file)."
    ),
]
MethodArgument = Annotated[str, typer.Argument(help="A method's name or path.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A hyperparameter's value; beats the file and the defaults.",
    ),
]
EncoderOption = Annotated[
    list[str] | None, typer.Option("--encoder", help="Instead of the space's encoders.")
]
ConfigurationsOption = Annotated[
    int | None,
    typer.Option(
        "--configurations", min=1, help="At most so many configurations per search and round."
    ),
]
SeedsOption = Annotated[
    str | None, typer.Option("--seeds", metavar="0,1,2", help="Instead of the space's final seeds.")
]
SubsetsOption = Annotated[
    str | None,
    typer.Option(
        "--subsets", metavar="0,1,2", help="Instead of the space's final subsets of the labels."
    ),
]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Folder of the results.  [default: results/trials]")
]
CpusOption = Annotated[
    float, typer.Option("--cpus-per-trial", min=0.1, help="CPU cores of one trial.")
]
GpusOption = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-trial", min=0, help="GPUs of one trial; a fraction shares one. Default: 1"
    ),
]


def set_values(given: list[str] | None) -> dict[str, Any]:
    """`key=value` texts as a dictionary; the values are read as YAML.

    Raises UserError for text without "=", and for a value that is not YAML.
    """
    import yaml

    found = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(
                f'--set {text}: write it as key=value, for example "--set learning_rate=3e-5"'
            )
        try:
            found[key] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError):
            raise UserError(f"--set {text}: the value is not valid YAML") from None
    return found


def whole_numbers(given: str | None, option: str) -> tuple[int, ...]:
    """`0,1,2` as numbers. Raises UserError for anything else."""
    parts = given.split(",") if given else []
    if not all(part.strip().isdecimal() and int(part) < 2**32 for part in parts):
        raise UserError(
            f"{option} {given}: whole numbers from 0 to 4294967295 with commas between them, for "
            f'example "0,1,2"'
        )
    return tuple(int(part) for part in parts)


def shipped_spaces() -> dict[str, Path]:
    """Name -> file, for the search spaces that come with harness."""
    from harness.files import shipped

    return {path.stem: path for path in sorted(shipped("search_spaces").glob("*.yaml"))}


def split_targets(targets: list[str]) -> tuple[tuple[str, ...], Path]:
    """Methods, and the file of the space, which comes last. Raises UserError when there is none."""
    *methods, space = targets
    return tuple(methods), space_file(space)


def space_file(space: str) -> Path:
    """The file of a search space, which is named by its path, or by its name if it is shipped.

    An existing file goes before a shipped one. `search_spaces/NAME.yaml` means the shipped NAME
    where there is no such file, so that printed commands work outside a checkout too.
    """
    path, shipped_ones = Path(space), shipped_spaces()
    if path.suffix in ("", *YAML_SUFFIXES) and path.is_file():
        return path
    name = path.stem if space == f"search_spaces/{path.stem}.yaml" else space
    if name in shipped_ones:
        return shipped_ones[name]
    if path.suffix in YAML_SUFFIXES:
        return path  # whoever reads it says what is wrong with it
    raise UserError(
        f'"{space}" is no search space: the last argument is a .yaml file or the name of a '
        f"shipped space{suggest(space, shipped_ones)}"
    )


def opened(store: Path | None) -> "stores.Store":
    """The store of `--store`, or the default one."""
    from harness.trials.store import DEFAULT_STORE
    from harness.trials.store import Store as Opened

    return Opened(store or DEFAULT_STORE)


@dataclass(frozen=True)
class SweepOptions:
    """What `harness sweep` and `harness plan` are told about a space."""

    targets: list[str]
    """Methods, then the space's file"""
    set_: list[str] | None
    encoder: list[str] | None
    configurations: int | None
    seeds: str | None
    subsets: str | None

    def searches(self) -> "list[Search]":
        """The searches that the command line asks for.

        Raises UserError for whatever is wrong with them.
        """
        from harness.sweep.overrides import Overrides, searches
        from harness.sweep.space import load

        methods, path = split_targets(self.targets)
        overrides = Overrides(
            methods=methods,
            encoders=tuple(self.encoder or ()),
            values=set_values(self.set_),
            configurations=self.configurations,
            seeds=whole_numbers(self.seeds, "--seeds"),
            subsets=whole_numbers(self.subsets, "--subsets"),
        )
        return searches(*load(path), overrides)
