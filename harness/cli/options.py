"""The options that several verbs share, and the functions that read their text."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.errors import UserError, suggest
from harness.inputs import finite, is_file, kind_of

if TYPE_CHECKING:
    from harness.sweep.search import Search
    from harness.trials import store as stores

YAML_SUFFIXES = (".yaml", ".yml")

TargetsArgument = Annotated[
    list[str],
    typer.Argument(
        help="Names or paths of methods (without any: all methods of the space), then the search "
        "space (a name from `harness list spaces`, or a YAML file)."
    ),
]
MethodArgument = Annotated[str, typer.Argument(help="The name or path of a method.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="The value of a hyperparameter; it goes before the file and the defaults.",
    ),
]
EncoderOption = Annotated[
    list[str] | None,
    typer.Option("--encoder", help="An encoder to use instead of the encoders of the space."),
]
ConfigurationsOption = Annotated[
    int | None,
    typer.Option(
        "--configurations",
        min=1,
        max=1_000_000,
        help="At most so many configurations per search and round.",
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option(
        "--seeds", metavar="0,1,2", help="Seeds to use instead of the final seeds of the space."
    ),
]
SubsetsOption = Annotated[
    str | None,
    typer.Option(
        "--subsets",
        metavar="0,1,2",
        help="Label subsets to use instead of the final ones of the space.",
    ),
]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="The folder of the store. Default: results/trials.")
]
CpusOption = Annotated[
    float,
    typer.Option("--cpus-per-trial", min=0.1, callback=finite, help="CPU cores of one trial."),
]
GpusOption = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-trial",
        min=0,
        callback=finite,
        help="GPUs of one trial; trials share a GPU when it is a fraction. Default: 1 where "
        "there are GPUs.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Run on this Ray cluster; `auto` is the one of this machine. Default: RAY_ADDRESS, "
        "or else a Ray of the sweep's own.",
    ),
]


def use_cluster(address: str | None) -> None:
    """Let the sweep join the Ray cluster at an address; None changes nothing."""
    if address is not None:
        os.environ["RAY_ADDRESS"] = address  # Ray reads it when it is imported


def set_values(given: list[str] | None) -> dict[str, Any]:
    """The texts `key=value` of `--set` as a dictionary; the values are read as YAML.

    Raises UserError for a text without "=", and for a value that is not YAML.
    """
    from harness.sweep.bounded_yaml import BadYaml, composed, constructed

    found = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(
                f'--set {text}: write it as key=value, for example "--set learning_rate=3e-5"'
            )
        try:
            found[key] = constructed(composed(value))
        except BadYaml as error:
            raise UserError(f"--set {text}: the value is not valid YAML: {error}") from None
    return found


def whole_numbers(given: str | None, option: str) -> tuple[int, ...]:
    """A text like `0,1,2` as numbers. Raises UserError for any other text."""
    parts = given.split(",") if given else []
    # The length first: Python refuses to read a number of thousands of digits.
    if not all(part.strip().isdecimal() and len(part) < 20 and int(part) < 2**32 for part in parts):
        raise UserError(
            f"{option} {given}: write whole numbers from 0 to 4294967295 with commas between them, "
            f'for example "0,1,2"'
        )
    return tuple(int(part) for part in parts)


def seconds_of(given: str | None, option: str) -> float | None:
    """A duration like `90s`, `30m` or `2h` in seconds. Raises UserError for any other text."""
    if given is None:
        return None
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smh])", given)
    seconds = float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if seconds < 1:
        raise UserError(
            f"{option} {given}: write a duration of at least one second, such as 90s, 30m or 2h"
        )
    return seconds


def shipped_spaces() -> dict[str, Path]:
    """Name -> file of the search spaces that come with harness."""
    from harness.files import shipped

    return {path.stem: path for path in sorted(shipped("search_spaces").glob("*.yaml"))}


def split_targets(targets: list[str]) -> tuple[tuple[str, ...], Path]:
    """The methods and the file of the search space, which is the last argument.

    Raises UserError when there is no such search space.
    """
    *methods, space = targets
    return tuple(methods), space_file(space)


def space_file(space: str) -> Path:
    """The file of a search space, which has a path, or a name if it is shipped.

    An existing file goes before a shipped one. `search_spaces/NAME.yaml` means the shipped NAME
    where there is no such file, so that printed commands work outside a checkout too. Raises
    UserError for a name that is not a search space.
    """
    path, shipped_ones = Path(space), shipped_spaces()
    if path.suffix in ("", *YAML_SUFFIXES) and is_file(path):
        return path
    name = path.stem if space == f"search_spaces/{path.stem}.yaml" else space
    if name in shipped_ones:
        return shipped_ones[name]
    if path.suffix in YAML_SUFFIXES:
        return path  # the reader of the file says that it does not exist
    raise UserError(
        f'"{space}" is not a search space: the last argument is a .yaml file or the name of a '
        f"shipped space{suggest(space, shipped_ones)}"
    )


def opened(store: Path | None) -> "stores.Store":
    """The store that `--store` names, or the default store.

    Raises UserError for what is there and is no folder.
    """
    from harness.trials.store import DEFAULT_STORE
    from harness.trials.store import Store as Opened

    folder = store or DEFAULT_STORE
    found = kind_of(folder)
    if found not in ("a folder", "nothing"):
        raise UserError(
            f"the store {folder} is {found}, not a folder; choose another folder with --store"
        )
    return Opened(folder)


@dataclass(frozen=True)
class SweepOptions:
    """The options of `harness sweep` and `harness plan` that narrow a search space."""

    targets: list[str]
    """Methods, then the name or path of the search space"""
    set_: list[str] | None
    encoder: list[str] | None
    configurations: int | None
    seeds: str | None
    subsets: str | None

    def searches(self) -> "list[Search]":
        """The searches that the command line asks for.

        Raises UserError for anything that is wrong in the options or in the search space.
        """
        from harness.sweep.overrides import Overrides, searches
        from harness.sweep.space import load_space

        methods, path = split_targets(self.targets)
        overrides = Overrides(
            methods=methods,
            encoders=tuple(self.encoder or ()),
            values=set_values(self.set_),
            configurations=self.configurations,
            seeds=whole_numbers(self.seeds, "--seeds"),
            subsets=whole_numbers(self.subsets, "--subsets"),
        )
        return searches(*load_space(path), overrides)
