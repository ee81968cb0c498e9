"""Folders of strangers: what is there, what would do, and what is refused because it runs code."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from harness import encoder
from harness.data.hub import EMBEDDED, model_folder, model_shape
from harness.data.tokens import load_tokenizer
from harness.encoders.pickled import convert
from harness.encoders.pretrained import check_loadable
from harness.errors import UserError

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EMBEDDED / "models" / "tiny-bert", tmp_path / "model"))


def changed(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | values))


def pickled(folder: Path) -> None:
    """Put the weights of a folder beside themselves, as pickles."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")


WEIGHTS = {
    "pytorch_model.bin": r"pytorch_model.bin is there.*harness convert /",
    "pytorch_model-1-of-2.bin pytorch_model-2-of-2.bin": r"pytorch_model-\*.bin.*harness convert /",
    "tf_model.h5": "TensorFlow.*save_pretrained",
    "flax_model.msgpack": "Flax.*save_pretrained",
    "q4.gguf": "llama.cpp.*save_pretrained",
    "model.onnx": "ONNX.*save_pretrained",
    "model.safetensors": "git lfs pull",
    "notes.txt": "no weights.*download",
}
"""Files in the place of the weights, and what is said of them"""


@pytest.mark.parametrize(("name", "part"), WEIGHTS.items())
def test_weights_that_are_not_read(name: str, part: str, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    for each in name.split():
        (folder / each).write_text(POINTER if each == "model.safetensors" else "PK")
    with pytest.raises(UserError, match=part):
        check_loadable(str(folder))


def test_folders_without_a_configuration(folder: Path, tmp_path: Path) -> None:
    for name in ("0_Transformer", "best"):
        shutil.copytree(folder, tmp_path / "around" / name)
        with pytest.raises(UserError, match=f"no config.json.*lies in {name}: name "):
            model_folder(str(tmp_path / "around"))
        shutil.rmtree(tmp_path / "around")
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"no config.json.*it has .*model.safetensors"):
        model_folder(str(folder))
    changed(folder / "adapter_config.json")
    with pytest.raises(UserError, match=r"no config.json.*adapter.*merge_and_unload"):
        model_folder(str(folder))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no config.json.*it is empty"):
        model_folder(str(tmp_path / "empty"))


def test_an_adapter_beside_a_model_is_refused(folder: Path) -> None:
    """Transformers would load another model, which the adapter names, in the place of this one."""
    changed(folder / "adapter_config.json", base_model_name_or_path="some/model")
    with pytest.raises(UserError, match="merge_and_unload"):
        model_shape(str(folder))


@pytest.mark.parametrize(
    "values",
    [
        {"_attn_implementation": "kernels-community/flash-attn"},
        {"attn_implementation": "someone/kernel@main:forward"},
        {"text_config": {"_attn_implementation": "paged|someone/kernel"}},
        {"_attn_implementation": {"text_config": "someone/kernel"}},
        {"trust_remote_code": True},
    ],
)
def test_settings_that_run_code_are_refused(values: dict[str, Any], folder: Path) -> None:
    changed(folder / "config.json", _attn_implementation="sdpa", trust_remote_code=False)
    check_loadable(str(folder))
    changed(folder / "config.json", **values)
    with pytest.raises(UserError, match="asks for code from elsewhere"):
        check_loadable(str(folder))


@pytest.mark.parametrize("name", ["spm.model", "spiece.model", "sentencepiece.bpe.model"])
def test_a_vocabulary_whose_package_is_missing(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / name).touch()
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=f"{name} is read with sentencepiece.*pip install"):
        load_tokenizer(str(folder))


@pytest.mark.parametrize("name", ["NoSuchTokenizer", "planted.Code", "Bert"])
def test_an_unknown_class_of_a_tokenizer(name: str, folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    changed(folder / "tokenizer_config.json", tokenizer_class=name)
    with pytest.raises(UserError, match=f"tokenizer_class {name}, which transformers does not"):
        load_tokenizer(str(folder))


def modules(folder: Path, *kinds: tuple[str, str]) -> None:
    """Write modules.json. kinds: the folder and the class of each module."""
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.{kind}"}
        for number, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))


def library_folder(folder: Path, place: str = "1_Pooling", **values: Any) -> None:
    """Make the folder one of the library, with a pooling."""
    modules(folder, ("", "models.Transformer"), (place, "models.Pooling"))
    (folder / "1_Pooling").mkdir()
    changed(folder / "1_Pooling" / "config.json", **{"word_embedding_dimension": 128} | values)


def router(folder: Path) -> None:
    """Make the folder one of the library, whose router names code."""
    modules(folder, ("", "models.Router"))
    changed(folder / "router_config.json", types={"a": "planted.Code"}, structure={"a": ["a"]})


def arguments(folder: Path, **values: Any) -> None:
    """Write the arguments with which the library loads the model."""
    changed(folder / "sentence_bert_config.json", model_args=values)


FOREIGN: dict[str, Callable[[Path], None]] = {
    "router": router,
    "words": lambda folder: library_folder(folder, tokenizer_class="planted.Code"),
    "activation": lambda folder: library_folder(folder, activation_function="torch.hub.load"),
    "outside": lambda folder: library_folder(folder, "../elsewhere"),
    "module": lambda folder: modules(folder, ("", "util.misc.torch")),
    "trust": lambda folder: arguments(folder, trust_remote_code=True),
    "kernel": lambda folder: arguments(folder, attn_implementation="a/kernel"),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_a_folder_of_the_library_that_asks_for_code(
    make: Callable[[Path], None], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "planted.py").write_text("raise SystemExit('it runs')")
    with pytest.raises(UserError, match="code that is not the library's"):
        encoder(folder)


@pytest.mark.slow
def test_pickled_weights_of_a_folder_of_the_library(folder: Path) -> None:
    library_folder(folder)
    pickled(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="harness convert /"):
        encoder(folder)


def test_pickled_weights_are_converted(folder: Path) -> None:
    """In two parts, with tensors that share memory, as tied embeddings do."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    weights["tied"] = weights[names[0]]
    for number, part in enumerate((names[:5], [*names[5:], "tied"]), 1):
        path = folder / f"pytorch_model-0000{number}-of-00002.bin"
        torch.save({name: weights[name] for name in part}, path)
    assert convert(str(folder)) == folder / "model.safetensors"
    written = load_file(folder / "model.safetensors")
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[name], weights[name]) for name in weights)
    with pytest.raises(UserError, match="is there; nothing is to be converted"):
        convert(str(folder))


class _Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('it ran')",)


BAD_PICKLES: dict[str, tuple[Any, str]] = {
    "code": ({"weight": _Code()}, "holds more than tensors, and reading it could run code"),
    "a list": ([torch.zeros(2)], "has no names of tensors, but list"),
    "a number": ({"weight": torch.zeros(2), "step": 3}, "'step' is int and no tensor"),
    "inside": ({"model": {"weight": torch.zeros(2)}}, "'model' is dict and no tensor"),
}


@pytest.mark.parametrize(("content", "part"), BAD_PICKLES.values(), ids=BAD_PICKLES)
def test_what_is_not_weights_is_not_converted(content: Any, part: str, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="nothing can be converted"):
        convert(str(folder))
    torch.save(content, folder / "pytorch_model.bin")
    before = sorted(folder.iterdir())
    with pytest.raises(UserError, match=part):
        convert(str(folder))
    (folder / "pytorch_model.bin").write_bytes(b"PK no zip")
    with pytest.raises(UserError, match=r"pytorch_model\.bin"):
        convert(str(folder))
    assert sorted(folder.iterdir()) == before
