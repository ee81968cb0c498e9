"""Writes a method with its weights into a folder that sentence-transformers loads."""

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import nn

from harness import __version__
from harness.data.hub import model_folder
from harness.encoders.backbone import Encoder
from harness.encoders.masked_lm import Generator
from harness.evaluation.embedder import Embedder
from harness.export.formats import PROBES, check_equal, copy_tokenizer, write_plain
from harness.files import written_whole
from harness.inputs import check_types
from harness.plugin.kit import Kit
from harness.plugin.library_model import load_model
from harness.plugin.method import Method
from harness.plugin.rebuilt import (
    ARTEFACT_FOLDER,
    DESCRIPTION,
    ENCODER,
    FURTHER,
    MODEL_WEIGHTS,
    MODULE,
    RebuiltMethod,
)
from harness.steps import Steps, unheard
from harness.trials.publishing import without_folders

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CARD = "README.md"
"""The file of the model card"""


def write_folder(
    method: Method[Any],
    kit: Kit,
    facts: Mapping[str, Any],
    folder: Path,
    card: Callable[[bool], str] = lambda _: "",
    *,
    steps: Steps = unheard,
) -> bool:
    """Write a method into a folder that is not there yet; whether the folder is plain.

    A plain folder has modules of sentence-transformers alone; another one needs this package where
    it is loaded. What was written is loaded again and compared with the method. facts: those of
    the trial. card: whether it is plain -> the text of the model card. steps: hears what is being
    done. Raises UserError when the embeddings differ.
    """
    method.eval()
    embedder = Embedder(method, kit)
    ours = embedder(PROBES)
    with written_whole(folder) as temporary:
        steps("writing the model")
        plain = _written(embedder, facts, ours.shape[1], temporary)
        steps("loading the written model, and comparing its embeddings")
        theirs = encoder(temporary).encode(list(PROBES), batch_size=4)
        check_equal(ours, np.asarray(theirs), f"the exported model of {facts['method']}")
        (temporary / CARD).write_text(card(plain), encoding="utf-8")
        for path in temporary.rglob("*.safetensors"):
            path.chmod(0o644)  # safetensors makes private files, and a folder is to be passed on
    return plain


def encoder(folder: Path | str) -> "SentenceTransformer":
    """The model of a folder that `harness export` has written; it is `harness.encoder`.

    It is the same as `SentenceTransformer(folder)`, also where the method needs code of this
    package, which sentence-transformers imports only with `trust_remote_code=True`. Raises
    UserError when the folder cannot be loaded, and when it asks for code of its own.
    """
    check_types(encoder.__annotations__, {"folder": folder})
    return load_model(str(folder))


def _written(embedder: Embedder, facts: Mapping[str, Any], width: int, folder: Path) -> bool:
    """Write the model in the way that fits; whether the folder is plain."""
    method = embedder.method
    if (model := library_model(method)) is not None:
        shutil.copytree(model_folder(method.config.encoder), folder)
        if (folder / CARD).exists():  # its own card is kept beside the new one
            (folder / CARD).rename(folder / f"ORIGINAL_{CARD}")
        return not isinstance(model[0], RebuiltMethod)
    if write_plain(embedder, folder):
        return True
    _write_rebuilt(method, embedder.kit, facts, width, folder)
    return False


def library_model(method: Method[Any]) -> Any:
    """The model of sentence-transformers that a method is; None for any other method."""
    own: Any = getattr(method, "encoder", None)
    return own if type(own).__module__.startswith("sentence_transformers.") else None


def _write_rebuilt(
    method: Method[Any], kit: Kit, facts: Mapping[str, Any], width: int, folder: Path
) -> None:
    """Write what `RebuiltMethod` reads."""
    folder.mkdir(parents=True)
    described = {**without_folders(dict(facts)), "harness": __version__, "dimension": width}
    _write_json(folder / DESCRIPTION, {"harness": described})
    _write_json(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": MODULE}])
    encoders = {part.name for part in method.modules() if isinstance(part, Encoder)}
    for number, name in enumerate(kit.declared.models):
        if name == method.config.encoder:
            copy_tokenizer(name, folder / ENCODER)
        elif name in encoders:
            copy_tokenizer(name, folder / FURTHER / str(number))
    weights = _weights(method, kit)
    if weights:
        save_file(weights, folder / MODEL_WEIGHTS, {"format": "pt"})
    for artefact in kit.declared.artefacts:
        if artefact.embeds:
            (folder / ARTEFACT_FOLDER).mkdir(exist_ok=True)
            arrays = {name: np.array(value) for name, value in kit.artefact(artefact.name).items()}
            save_arrays(arrays, folder / ARTEFACT_FOLDER / f"{artefact.name}.safetensors")


def _weights(method: Method[Any], kit: Kit) -> dict[str, Any]:
    """All parameters, buffers and extra state, without generators and encoders that are not used.

    An encoder is used when a part of it computes while a sentence is embedded.
    """
    left: dict[str, nn.Module] = {
        path: part for path, part in method.named_modules() if isinstance(part, Generator | Encoder)
    }
    hooks = [
        part.register_forward_pre_hook(partial(_keep, left, path))
        for path, whole in left.items()
        for part in whole.modules()
    ]
    Embedder(method, kit)(PROBES[:1])
    for hook in hooks:
        hook.remove()
    return {
        name: value.detach().cpu().contiguous().clone()
        for name, value in method.state_dict().items()
        if not any(name.startswith(f"{path}.") for path in left)
    }


def _keep(left: dict[str, nn.Module], path: str, *_: Any) -> None:
    left.pop(path, None)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True), encoding="utf-8")
