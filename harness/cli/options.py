"""The options that several verbs share, and the functions that read their text."""

import functools
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.errors import UserError
from harness.files import probe_writable
from harness.inputs import finite, kind_of, why

if TYPE_CHECKING:
    from harness.trials import store as stores

TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Names or paths of methods (without any: all methods of the space), then the search "
        "space (a name from `harness list spaces`, or a YAML file). With --paper: methods only."
    ),
]
PaperOption = Annotated[
    str | None,
    typer.Option(
        "--paper",
        metavar="P",
        help="Run what a published table of this paper still lacks: clsr, d2cse, dcpcse, diffaug "
        "or diffcse. With --table.",
    ),
]
TableOption = Annotated[
    int | None, typer.Option("--table", metavar="N", min=1, help="The number of the table.")
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
OursOnOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Of a paper: show trials on this encoder in the place of the paper's.",
    ),
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
PublishedOption = Annotated[
    bool,
    typer.Option(
        "--published",
        help="Do not search: give the papers' own values, and each variant, the final seeds.",
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FOLDER",
        help="The folder of the store, or s3://BUCKET/FOLDER. Default: results/trials.",
    ),
]
CpusOption = Annotated[
    float,
    typer.Option("--cpus-per-trial", min=0.1, callback=finite, help="CPU cores of one trial."),
]
GpusOption = Annotated[
    str | None,
    typer.Option(
        "--gpus-per-trial",
        metavar="NUMBER|auto",
        help="GPUs of one trial; trials share a GPU when it is a fraction. With `auto`, the "
        "measured memory of the first trial decides how many trials share one. Default: 1 where "
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
LocalOption = Annotated[
    bool | None,
    typer.Option(
        "--local/--no-local",
        help="Run the trials in this process, one after the other, without Ray. Default: where "
        "one trial runs at a time, and for short sweeps.",
    ),
]
TrackOption = Annotated[
    str | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Show the trials in an experiment tracker as they run: tensorboard, wandb, mlflow or "
        "trackio. Its files stay beside the store.",
    ),
]


def use_cluster(address: str | None) -> None:
    """Let the sweep join the Ray cluster at an address; None changes nothing."""
    if address is not None:
        os.environ["RAY_ADDRESS"] = address  # Ray reads it when it is imported


def set_values(given: list[str] | None) -> dict[str, str]:
    """The texts `key=value` of `--set` as a dictionary of the values as they are written.

    `harness.sweeps.spaces.values` reads them. Raises UserError for a text without "=".
    """
    found = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(
                f'--set {text}: write it as key=value, for example "--set learning_rate=3e-5"'
            )
        found[key] = value
    return found


def table_values(given: list[str] | None) -> dict[str, Any]:
    """The values of `--set` beside a published table, whose methods come with harness."""
    from harness.plugin import registry
    from harness.sweeps.spaces.values import read_values

    texts = set_values(given)
    return read_values(texts, map(registry.load, registry.names() if texts else ()))


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


def gpus_of(given: str | None) -> float | Literal["auto"] | None:
    """The GPUs of one trial: a fraction, a whole number or `auto`; None: the default.

    Raises UserError for any other text.
    """
    if given is None:
        return None
    if given == "auto":
        return "auto"
    with suppress(ValueError):
        gpus = float(given)
        # Ray gives a trial either a part of one GPU or whole ones.
        if 0 <= gpus < 1 or (gpus >= 1 and gpus.is_integer()):
            return gpus
    raise UserError(
        f"--gpus-per-trial {given}: write a fraction of a GPU such as 0.5, a whole number of GPUs, "
        f"0 for none, or auto"
    )


def opened(store: str | None) -> "stores.Store":
    """The store that `--store` names, or the default store; errors as `remote_store.opened`."""
    _leave_pandas_out()
    from harness.trials.remote_store import opened as opened_store

    return opened_store(store)


class _NoPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


@functools.cache
def _leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which takes a quarter of a second.

    It does so with its first array, to know pandas's objects where it is given some. Where pandas
    is imported by others afterwards, pyarrow finds it.
    """
    import pyarrow

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([])
    finally:
        sys.meta_path.remove(finder)


def check_ours_on(encoder: str | None, paper: str | None) -> None:
    """Raises UserError for an OursOnOption without a paper."""
    if encoder and not paper:
        raise UserError(f"--encoder {encoder} needs the name of a paper: --paper PAPER")


def check_new(folder: Path) -> None:
    """Raises UserError for a folder that is there already, and for one that cannot be written."""
    if kind_of(folder) != "nothing":
        raise UserError(f"{folder} is there already; name a folder that is not there yet")
    with writing(folder):
        probe_writable(folder)


@contextmanager
def writing(folder: Path, option: str | None = None) -> Iterator[None]:
    """In the block, the folder of an option is written, or that of an argument.

    Raises UserError when that is not possible.
    """
    try:
        yield
    except OSError as error:
        chosen = "" if option is None else f" with {option}"
        raise UserError(
            f"{folder} cannot be written ({why(error)}); choose another folder{chosen}"
        ) from None
