"""`harness export`: a trained encoder as a folder, or mteb's results; `harness push` sends it."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import completion, options
from harness.cli.eval import MethodOption
from harness.cli.output import echo
from harness.cli.progress import working
from harness.errors import UserError, extra
from harness.files import check_cache
from harness.inputs import kind_of
from harness.steps import Steps
from harness.targets.stores import opened
from harness.trials.run_again import run_command

if TYPE_CHECKING:
    from harness.export.exportable import Exportable
    from harness.report.groups import Group
    from harness.trials.store import Store

TrialArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="The key of a final trial, or a file of kept weights (.safetensors).",
        autocompletion=completion.keys,
        show_default=False,
    ),
]


def export(
    name: TrialArgument,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The folder to write; it must not be there yet, unless results are added to it.",
        ),
    ],
    onnx: Annotated[
        bool,
        typer.Option("--onnx", help="Add the model as ONNX, where its method needs no own code."),
    ] = False,
    mteb: Annotated[
        bool,
        typer.Option(
            "--mteb", help="Write what mteb measured as its result files, not the encoder."
        ),
    ] = False,
    method: MethodOption = None,
    store: options.StoreOption = None,
) -> None:
    """Write a trained encoder as a folder for sentence-transformers, with a model card.

    The embeddings of the folder are compared with those of the trial before it gets its name. With
    --mteb, KEY may also be a model as `harness eval` takes it.

    Example: harness export 4f2a my-model
    """
    if mteb:
        _results(name, folder, method, opened(store), onnx=onnx)
        return

    options.check_new(folder)
    results = opened(store)
    build = checked(name, results, method)
    with working(f"exporting {name} into {folder}") as work:
        loaded_by = write(build, folder, method, results, work, onnx=onnx)
    echo(f"{folder}: embeddings equal to those of the trial, to 1e-5.")
    if loaded_by:
        echo(f'SentenceTransformer("{folder}") loads it without harness. {loaded_by}.')
    else:
        echo(
            f'harness.encoder("{folder}") loads it; its method needs code of harness, which '
            f"is installed with sentence-transformers 6."
        )


def _results(name: str, folder: Path, method: str | None, store: "Store", *, onnx: bool) -> None:
    """Write result files of mteb, and print their number."""
    if onnx:
        raise UserError("--onnx writes the encoder, and --mteb its scores; give one of them")
    if kind_of(folder) not in ("nothing", "a folder"):
        raise UserError(f"{folder} is no folder; results of mteb are files below one")
    with working(f"writing the results of {name} as files of mteb into {folder}"):
        from harness.export.mteb_results import write_results

        paths = write_results(name, store, folder, method)
    echo(f"{paths[0].parent}: results of {len(paths)} tasks, with model_meta.json.")
    echo(f'mteb.ResultCache("{folder}").load_results() reads them.')


def checked(name: str, store: "Store", method: str | None) -> "Callable[[], Exportable]":
    """The function that builds the model to export, once it is known that there is one."""
    from harness.export.exportable import exportable

    with extra("sentence-transformers", "an exported model"):
        if find_spec("sentence_transformers") is None:  # its import takes seconds
            raise ModuleNotFoundError(name="sentence_transformers")
    check_cache()
    return exportable(name, store, method)


def write(
    build: "Callable[[], Exportable]",
    folder: Path,
    method: str | None,
    store: "Store",
    steps: Steps,
    *,
    onnx: bool = False,
) -> str | None:
    """Write the folder of a model with its card.

    Returns a sentence about the versions of sentence-transformers that load it alone, if any do.
    """
    steps("loading torch and sentence-transformers")
    from harness.export.card import loaded_by, model_card
    from harness.export.folder import check_library, write_folder
    from harness.export.formats import check_onnx

    check_library()
    if onnx:
        check_onnx()
    steps("loading the model")
    model = build()
    group = _group(model, store)
    again = None if model.record is None else run_command(model.record, method)

    def card(plain: bool) -> str:
        return model_card(model, group, plain=plain, command=again)

    with options.writing(folder):
        plain = write_folder(
            model.method, model.kit, model.facts, folder, card, onnx=onnx, steps=steps
        )
    return loaded_by(model) if plain else None


def _group(model: "Exportable", store: "Store") -> "Group | None":
    """The trials that can be compared with a trial; None where the store does not have it."""
    from harness.report.groups import comparable_groups
    from harness.report.measured_trials import TABLE_COLUMNS

    groups = comparable_groups(store.read(TABLE_COLUMNS).table)
    return next((group for group in groups if model.facts["key"] in group.keys), None)


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
    from harness.export.card import check_name
    from harness.export.card import push as send

    check_name(repository)
    results = opened(store)
    build = checked(name, results, method)
    with TemporaryDirectory() as place, working(f"sending {name} to {repository}") as work:
        folder = Path(place) / "model"
        write(build, folder, method, results, work)
        work("sending files")
        address = send(
            folder, repository, f"Trial {Path(name).name} of harness", private=not public
        )
    echo(address)


def convert(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="The Hub name of a model, or a folder, whose weights are pickled.",
            show_default=False,
        ),
    ],
) -> None:
    """Write the pickled weights of a model as safetensors beside them, and run no code.

    Checkpoints that were released before safetensors are read by no other verb.

    Example: harness convert princeton-nlp/unsup-simcse-bert-base-uncased
    """
    with working(f"converting {name}"):
        from harness.encoders.pickled import convert as write_safetensors

        path = write_safetensors(name)
    echo(str(path))
