"""Folders of exported models that other libraries read, with probes that compare the vectors.

A plain encoder with its pooling becomes a model of sentence-transformers that needs no code of
harness.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from harness.data.hub import MODEL_FILES, MODULES_FILE, model_folder
from harness.encoders.backbone import Encoder
from harness.encoders.low_rank import merged_weights
from harness.encoders.pretrained import without_pooler
from harness.errors import UserError
from harness.evaluation.embedder import Embedder
from harness.modules.heads import TanhHead
from harness.plugin.method import Method
from harness.trials.publishing import without_folder

PROBES = (
    "A man is playing a guitar.",
    "a man is playing a guitar",
    "Two dogs run across a field of high grass",
    "Is this sentence a question?",
    'She said: "No."',
    "  Spaces   stand\tin front, between and behind.  ",
    "UPPER CASE",
    "x",
    "",
    "3.14159, 2 + 2 = 4; 50 %",
    "Ein Satz mit Umlauten: äöü ß.",
    "日本語の文 and a \N{GRINNING FACE}",
    "It is longer than all the others, and so it shows what padding does to those around it: " * 2,
    "a sentence that does not end " * 400,
)
"""Sentences with and without a full stop, of no word and of more words than there are positions"""
LARGEST_DIFFERENCE = 1e-5
"""The largest difference of a value, as a share of the largest value where that is above 1"""


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of a value, as in LARGEST_DIFFERENCE; infinite for other shapes."""
    if ours.shape != theirs.shape or not np.isfinite(theirs).all():
        return float("inf")
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(ours).max()))


def check_equal(ours: np.ndarray, theirs: np.ndarray, title: str) -> None:
    """Raise UserError when vectors of PROBES differ. title: the exported model, in the message."""
    distance = difference(ours, theirs)
    if distance > LARGEST_DIFFERENCE:
        raise UserError(
            f"{title} gives other embeddings than the trial (they differ by {distance:.2g}), so "
            f"nothing was written"
        )


POOLINGS = {
    "cls": "cls_token", "mean": "mean_tokens", "lasttoken": "lasttoken",
    "weightedmean": "weightedmean_tokens",
}  # fmt: skip
"""The poolings of the library that methods here have -> their names before version 5.4"""
_NAMED = "sentence_transformers.models"
"""The module that has the modules of the library in versions 3 to 6"""
_LAYERS = (nn.Linear, nn.ReLU, nn.Tanh, nn.GELU, nn.Identity)
"""Activations of a head: the library's Dense is a linear layer with one of these behind it"""


def write_plain(embedder: Embedder, folder: Path) -> bool:
    """Write a method into a folder if it is plain; whether it was."""
    from sentence_transformers.sentence_transformer.modules import Transformer

    method = embedder.method
    encoder = getattr(method, "encoder", None)
    if not isinstance(encoder, Encoder):
        return False
    folder.mkdir(parents=True)
    state = merged_weights(encoder.model)
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    _write_configuration(method, encoder, folder)
    transformer = Transformer.load(str(folder))
    wanted = [embedder(PROBES, dev=dev) for dev in (False, True)]
    passed = _passed(transformer)
    for modules in _candidates(method, encoder.hidden_size):
        vectors = _embedded(passed, modules)
        if all(difference(each, vectors) <= LARGEST_DIFFERENCE for each in wanted):
            # The library's own `save` would write the weights once more, and import DeepSpeed.
            transformer.processor.save_pretrained(str(folder))
            _write_configuration(method, encoder, folder)
            _write_modules(modules, folder)
            return True
    shutil.rmtree(folder)
    return False


def copy_tokenizer(model: str, folder: Path) -> None:
    """Copy the configuration and the tokenizer of a pretrained model, without its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    source = model_folder(model)
    for path in sorted({path for pattern in MODEL_FILES for path in source.glob(pattern)}):
        if path.suffix != ".safetensors" and not path.name.endswith(".index.json"):
            shutil.copyfile(path, folder / path.name)
    for name in ("config.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            _without_origin(folder / name)


def _older(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a module as older versions read it, from that of the newest one."""
    if kind == "Dense":  # what it reads and writes is what older versions always read and write
        return {name: value for name, value in values.items() if not name.startswith("module_")}
    mode = values["pooling_mode"]
    modes = {f"pooling_mode_{older}": name == mode for name, older in POOLINGS.items()}
    return {"word_embedding_dimension": values["embedding_dimension"], **modes}


def _write_modules(modules: Iterable[Any], folder: Path) -> None:
    """Write what stands behind the transformer, by the names that versions 3 to 6 know."""
    listed = [{"idx": 0, "name": "0", "path": "", "type": f"{_NAMED}.Transformer"}]
    for number, module in enumerate(modules, 1):
        kind = type(module).__name__
        path = folder / f"{number}_{kind}"
        path.mkdir()
        module.save(str(path))
        listed.append(
            {"idx": number, "name": str(number), "path": path.name, "type": f"{_NAMED}.{kind}"}
        )
        if kind != "Normalize":
            values = _older(kind, json.loads((path / "config.json").read_text(encoding="utf-8")))
            (path / "config.json").write_text(json.dumps(values, indent=2), encoding="utf-8")
    (folder / MODULES_FILE).write_text(json.dumps(listed, indent=2), encoding="utf-8")


def _without_origin(path: Path) -> None:
    """Leave out from which folder transformers has loaded what it once saved here."""
    values = json.loads(path.read_text(encoding="utf-8"))
    kept = {
        name: value
        for name, value in values.items()
        if name not in ("_name_or_path", "name_or_path") or without_folder(str(value)) == value
    }
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False), encoding="utf-8")


def _name_padding(path: Path, token: str) -> None:
    """Let the tokenizer pad as the method does; that of a decoder may have no token for it."""
    values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    named = values.get("pad_token")
    if token != (named["content"] if isinstance(named, dict) else named):
        values["pad_token"] = token
        path.write_text(json.dumps(values, indent=2, ensure_ascii=False), encoding="utf-8")


@torch.inference_mode()
def _passed(transformer: Any) -> list[dict[str, Any]]:
    """States that the library's Transformer makes of PROBES; every candidate starts with them."""
    # In pairs, so that padding counts, and one row alone has the width of the longest probe.
    pairs = [PROBES[start : start + 2] for start in range(0, len(PROBES), 2)]
    return [transformer.eval()(transformer.preprocess(list(pair))) for pair in pairs]


@torch.inference_mode()
def _embedded(passed: Iterable[Mapping[str, Any]], modules: Iterable[nn.Module]) -> np.ndarray:
    """The vectors of PROBES behind further modules, (len(PROBES), hidden)."""
    tail = nn.Sequential(*modules).eval()
    return torch.cat([tail(dict(each))["sentence_embedding"] for each in passed]).numpy()


def _candidates(method: Method[Any], width: int) -> Iterator[list[nn.Module]]:
    """Modules that may stand behind the transformer; the simplest comes first."""
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    tails: list[list[nn.Module]] = [[]]
    heads = map(_layers, method.children())
    tails += [[*_dense(layers, Dense)] for layers in heads if layers]
    for tail in tails:
        for pooling in POOLINGS:
            modules = [Pooling(width, pooling), *tail]
            yield modules
            yield [*modules, Normalize()]


def _layers(module: nn.Module) -> list[nn.Module]:
    """The layers of a head that is linear layers with activation functions; none of another one."""
    if isinstance(module, TanhHead):
        return [module.linear, nn.Tanh()]
    layers = list(module.children()) if type(module) is nn.Sequential else []
    return layers if all(isinstance(each, _LAYERS) for each in layers) else []


def _dense(layers: list[nn.Module], kind: Any) -> Iterator[nn.Module]:
    """The layers of a head as modules of the library (`kind`: its class Dense)."""
    for layer, behind in pairwise([*layers, nn.Identity()]):
        if isinstance(layer, nn.Linear):
            yield kind(
                layer.in_features,
                layer.out_features,
                bias=layer.bias is not None,
                activation_function=nn.Identity() if isinstance(behind, nn.Linear) else behind,
                init_weight=layer.weight.detach().cpu().clone(),
                init_bias=None if layer.bias is None else layer.bias.detach().cpu().clone(),
            )


def _write_configuration(method: Method[Any], encoder: Encoder, folder: Path) -> None:
    """Write the tokenizer, and how transformers and sentence-transformers load the encoder."""
    copy_tokenizer(encoder.name, folder)
    _name_padding(folder / "tokenizer_config.json", method.tokenizer.pad_token)
    config = folder / "config.json"
    values = json.loads(config.read_text(encoding="utf-8"))
    # The file may be that of a masked language model, whose other parts are not here.
    values["architectures"] = [type(encoder.model).__name__]
    config.write_text(json.dumps(values, indent=2), encoding="utf-8")
    described = {
        "max_seq_length": method.longest,
        "do_lower_case": False,
        "model_args": without_pooler(encoder.model.config),
    }
    (folder / "sentence_bert_config.json").write_text(json.dumps(described, indent=2))
