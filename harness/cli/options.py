"""The options that several verbs share, and the functions that read their text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import completion
from harness.errors import UserError
from harness.files import probe_writable
from harness.inputs import kind_of, why

MethodArgument = Annotated[
    str, typer.Argument(help="The name or path of a method.", autocompletion=completion.methods)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="The value of a hyperparameter; it goes before the file and the defaults.",
    ),
]
PAPERS = "clsr, d2cse, dcpcse, diffaug, diffcse, or the folder of one of your own"
PaperOption = Annotated[
    str | None,
    typer.Option(
        "--paper", metavar="P", help=f"A paper: {PAPERS}.", autocompletion=completion.papers
    ),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="The Hub name or the folder of an encoder, in the place of the one by default.",
        autocompletion=completion.encoders,
    ),
]
OursOnOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Of a paper: show trials on this encoder in the place of the paper's.",
        autocompletion=completion.encoders,
    ),
]
SweepOption = Annotated[
    str | None,
    typer.Option(
        "--sweep",
        help="A sweep: the name or file of its search space, or the identifier of a search of the "
        "store.",
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
TrackOption = Annotated[
    str | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Show the trials in an experiment tracker as they run: tensorboard, wandb or mlflow. "
        "Its files stay beside the store.",
    ),
]


def set_values(texts: list[str] | None) -> dict[str, str]:
    """The texts `key=value` of `--set` as a dictionary of the values as they are written.

    `harness.sweeps.spaces.values` reads them. Of two values of a key, the later one counts, as
    of two options. Raises UserError for a text without "=".
    """
    values: dict[str, str] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(
                f'--set {text}: write it as key=value, for example "--set learning_rate=3e-5"'
            )
        values[key] = value
    return values


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
