"""Models whose configuration, weights or tokenizer cannot be those of an encoder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
Model = Callable[[], Path]
Arguments = Callable[[str, Path], list[object]]


@pytest.fixture
def on_model(space: SpaceFile) -> Arguments:
    """on_model(verb, folder): the arguments of a command on the model in the folder."""

    def arguments(verb: str, folder: Path) -> list[object]:
        run = ["simcse", "--set", "suite=graded", "--set", "sentences=graded-sentences"]
        return {
            "run": ["run", *run, "--encoder", folder],
            "sweep": ["sweep", space(), "--encoder", folder],
            "plan": ["plan", space(), "--encoder", folder],
            "eval": ["eval", folder, "--suite", "graded"],
            "compare": ["compare", "tiny-bert", folder, "--suite", "graded"],
        }[verb]

    return arguments


NO_CONFIG = {
    "list": ("[]", "must hold a mapping, not a list"),
    "list-of-one": ('[{"hidden_size": 64}]', "must hold a mapping, not a list"),
    "text": ('"bert"', "must hold a mapping, not a str"),
    "null": ("null", "must hold a mapping"),
    "number": ("3", "must hold a mapping"),
    "empty": ("", "is no JSON"),
    "broken": ("{", "is no JSON"),
    "deep": ("[" * 100_000, "is no JSON"),
    "digits": ('{"hidden_size": ' + "9" * 5000 + "}", "is no JSON"),
    "nan": ('{"hidden_size": NaN}', "hidden_size is nan"),
    "large": (" " * (2**20 + 1), "at most 1048576"),
}


@pytest.mark.parametrize(("text", "part"), NO_CONFIG.values(), ids=NO_CONFIG)
@pytest.mark.parametrize("verb", ["run", "plan"])
def test_configuration_that_is_no_mapping(
    verb: str, text: str, part: str, refused: Refused, model: Model, on_model: Arguments
) -> None:
    folder = model()
    (folder / "config.json").write_text(text)
    refused(on_model(verb, folder), folder / "config.json", part)


SIZES: list[tuple[str, Any]] = [
    *(("num_attention_heads", value) for value in (0, -2, 3, "two", None, True, 2.5, 10**30)),
    *(("num_hidden_layers", value) for value in (0, -1, 10**12)),
    *(("hidden_size", value) for value in (0, [64], 2**40)),
    *(("vocab_size", value) for value in (0, 2**31)),
    ("max_position_embeddings", 0),
    ("intermediate_size", 0),
]


@pytest.mark.parametrize(("key", "value"), SIZES)
def test_size(key: str, value: Any, refused: Refused, model: Model, on_model: Arguments) -> None:
    folder = changed(model(), **{key: value})
    refused(on_model("run", folder), folder / "config.json", key)


@pytest.mark.parametrize("verb", ["sweep", "plan", "eval", "compare"])
def test_no_heads(verb: str, refused: Refused, model: Model, on_model: Arguments) -> None:
    folder = changed(model(), num_attention_heads=0)
    refused(on_model(verb, folder), "num_attention_heads is 0", "whole number from 1 on")


def changed(folder: Path, **values: Any) -> Path:
    """The folder of a model after values of its config.json were changed; None removes one."""
    config = json.loads((folder / "config.json").read_text()) | values
    (folder / "config.json").write_text(json.dumps(config))
    return folder


OTHER = {
    "family": {"model_type": "nosuch"},
    "no-family": {"model_type": None},
    "list": {"model_type": ["bert"]},
    "gpt": {"model_type": "gpt2"},
    "width": {"hidden_size": 32},
    "vocabulary": {"vocab_size": 77},
    "activation": {"hidden_act": "nosuch"},
    "dropout": {"hidden_dropout_prob": 7},
    "dropout-as-text": {"hidden_dropout_prob": "x"},
    "padding": {"pad_token_id": 10**9},
    "types": {"type_vocab_size": 0},
}


@pytest.mark.parametrize("values", OTHER.values(), ids=OTHER)
def test_configuration_of_another_model(
    values: dict[str, Any], refused: Refused, model: Model, on_model: Arguments
) -> None:
    folder = changed(model(), **values)
    refused(on_model("run", folder), folder)


FILES = {
    "no-weights": ("model.safetensors", b""),
    "text-as-weights": ("model.safetensors", b"hello there"),
    "huge-header": ("model.safetensors", b"\xff" * 8 + b"{}"),
    "no-tokenizer": ("tokenizer.json", b""),
    "list-as-tokenizer": ("tokenizer.json", b"[]"),
    "broken-tokenizer": ("tokenizer.json", b"{"),
    "latin-tokenizer": ("tokenizer.json", b"\xe9"),
    "list-as-settings": ("tokenizer_config.json", b"[]"),
    "null-as-settings": ("tokenizer_config.json", b"null"),
}


@pytest.mark.parametrize(("name", "content"), FILES.values(), ids=FILES)
def test_damaged_file(
    name: str, content: bytes, refused: Refused, model: Model, on_model: Arguments
) -> None:
    folder = model()
    (folder / name).write_bytes(content)
    refused(on_model("run", folder), folder)


@pytest.mark.parametrize(
    "modules",
    ["[]", "{", '{"a": 1}', "[3]", '[{"idx": 0, "name": "0", "path": "", "type": "os.system"}]'],
    ids=["none", "broken", "mapping", "number", "foreign-code"],
)
def test_modules_of_sentence_transformers(
    modules: str, refused: Refused, model: Model, on_model: Arguments
) -> None:
    folder = model()
    (folder / "modules.json").write_text(modules)
    refused(on_model("eval", folder), folder)
