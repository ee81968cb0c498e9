"""`harness export`: a trained encoder as a folder, or mteb's results; `harness convert`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import completion, options
from harness.cli.eval import MethodOption
from harness.cli.output import echo
from harness.cli.progress import working
from harness.errors import UserError, check_extra
from harness.files import check_cache
from harness.inputs import kind_of
from harness.targets.stores import opened
from harness.trials.run_again import run_command

if TYPE_CHECKING:
    from harness.export.exportable import Exportable
    from harness.report.groups import Group
    from harness.trials.store import Store


def export(
    name: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="The key of a final trial, or a file of kept weights (.safetensors).",
            autocompletion=completion.keys,
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The folder to write; it must not be there yet, unless results are added to it.",
        ),
    ],
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
        _write_results(name, folder, method, opened(store))
        return

    options.check_new(folder)
    results = opened(store)
    from harness.export.exportable import exportable

    check_extra("sentence-transformers", "sentence_transformers", "an exported model")
    check_cache()
    build = exportable(name, results, method)
    with working(f"exporting {name} into {folder}") as work:
        work("loading torch and sentence-transformers")
        from harness.export.card import loaded_by, model_card
        from harness.export.folder import write_folder

        work("loading the model")
        model = build()
        group = _group(model, results)
        again = None if model.record is None else run_command(model.record, method)
        with options.writing(folder):
            plain = write_folder(
                model.method, model.kit, model.facts, folder,
                lambda plain: model_card(model, group, plain=plain, command=again), steps=work,
            )  # fmt: skip
    echo(f"{folder}: embeddings equal to those of the trial, to 1e-5.")
    if plain:
        echo(f'SentenceTransformer("{folder}") loads it without harness. {loaded_by(model)}.')
    else:
        echo(
            f'harness.encoder("{folder}") loads it; its method needs code of harness, which '
            f"is installed with sentence-transformers 6."
        )


def _write_results(name: str, folder: Path, method: str | None, store: "Store") -> None:
    """Write result files of mteb, and print their number."""
    if kind_of(folder) not in ("nothing", "a folder"):
        raise UserError(f"{folder} is no folder; results of mteb are files below one")
    with working(f"writing the results of {name} as files of mteb into {folder}"):
        from harness.export.mteb_results import write_results

        paths = write_results(name, store, folder, method)
    echo(f"{paths[0].parent}: results of {len(paths)} tasks, with model_meta.json.")
    echo(f'mteb.ResultCache("{folder}").load_results() reads them.')


def _group(model: "Exportable", store: "Store") -> "Group | None":
    """The trials that can be compared with a trial; None where the store does not have it."""
    from harness.report.groups import comparable_groups
    from harness.report.measured_trials import TABLE_COLUMNS

    groups = comparable_groups(store.read(TABLE_COLUMNS).table)
    return next((group for group in groups if model.facts["key"] in group.keys), None)


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
