"""`harness push`: exports a trained encoder and sends it to the Hub."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.eval import MethodOption
from harness.cli.export import TrialArgument, checked, write
from harness.cli.output import echo


def push(
    name: TrialArgument,
    repository: Annotated[
        str,
        typer.Argument(
            metavar="ORGANISATION/NAME", help="The repository on the Hub.", show_default=False
        ),
    ],
    public: Annotated[
        bool, typer.Option("--public", help="Let everyone see a new repository. Default: private.")
    ] = False,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Send a trained encoder to the Hugging Face Hub, as `harness export` writes it.

    The Hub's own client sends it, with the token of `hf auth login` or HF_TOKEN.

    Example: harness push 4f2a my-name/my-model
    """
    from harness.cli.progress import working
    from harness.export.push import check_name
    from harness.export.push import push as send

    check_name(repository)
    found = options.opened(store)
    build = checked(name, found, method)
    with TemporaryDirectory() as place, working(f"sending {name} to {repository}") as work:
        folder = Path(place) / "model"
        write(build, folder, method, found, work)
        work("sending files")
        address = send(
            folder, repository, f"Trial {Path(name).name} of harness", private=not public
        )
    echo(address)
