"""Options that several verbs share, and how their text becomes values."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.errors import UserError

if TYPE_CHECKING:
    from harness.sweep.search import Search
    from harness.trials import store as stores

Targets = Annotated[
    list[str],
    typer.Argument(
        help="Methods (names or paths; none: all of the space), then the search space's file."
    ),
]
Method = Annotated[str, typer.Argument(help="A method's name or path.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A hyperparameter's value; beats the file and the defaults.",
    ),
]
Encoder = Annotated[
    list[str] | None, typer.Option("--encoder", help="Instead of the space's encoders.")
]
Configurations = Annotated[
    int | None,
    typer.Option(
        "--configurations", min=1, help="At most so many configurations per search and round."
    ),
]
Seeds = Annotated[
    str | None, typer.Option("--seeds", metavar="0,1,2", help="Instead of the space's final seeds.")
]
Subsets = Annotated[
    str | None,
    typer.Option(
        "--subsets", metavar="0,1,2", help="Instead of the space's final subsets of the labels."
    ),
]
Store = Annotated[
    Path | None, typer.Option("--store", help="Folder of the results.  [default: results/trials]")
]
Cpus = Annotated[float, typer.Option("--cpus-per-trial", min=0.1, help="CPU cores of one trial.")]
Gpus = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-trial", min=0, help="GPUs of one trial; a fraction shares one. Default: 1"
    ),
]


def values(given: list[str] | None) -> dict[str, Any]:
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


def numbers(given: str | None, option: str) -> tuple[int, ...]:
    """`0,1,2` as numbers. Raises UserError for anything else."""
    parts = given.split(",") if given else []
    if not all(part.strip().isdecimal() and int(part) < 2**32 for part in parts):
        raise UserError(
            f"{option} {given}: whole numbers from 0 to 4294967295 with commas between them, for "
            f'example "0,1,2"'
        )
    return tuple(int(part) for part in parts)


def split_targets(targets: list[str]) -> tuple[tuple[str, ...], Path]:
    """Methods, and the space's file, which comes last. Raises UserError when it is not YAML."""
    *methods, space = targets
    if not space.endswith((".yaml", ".yml")):
        raise UserError(
            f'"{space}" is no search space: the last argument is a .yaml file, '
            "for example search_spaces/quickstart.yaml"
        )
    return tuple(methods), Path(space)


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
            values=values(self.set_),
            configurations=self.configurations,
            seeds=numbers(self.seeds, "--seeds"),
            subsets=numbers(self.subsets, "--subsets"),
        )
        return searches(*load(path), overrides)
