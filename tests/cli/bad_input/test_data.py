"""Models, corpora and stores that are not there, or that are not what they seem to be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.bad_input.conftest import Model, Refused, SpaceFile

pytestmark = pytest.mark.slow

Arguments = Callable[[str, Path], list[object]]
GRADED = ("--set", "suite=graded")


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


MODEL_FILES = {
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


@pytest.mark.parametrize(("name", "content"), MODEL_FILES.values(), ids=MODEL_FILES)
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


RUN = ("--encoder", "tiny-bert", "--set", "suite=graded", "--set", "max_steps=2")
HEADER = b"sent0,sent1,hard_neg\n"

FILES = {
    "empty": ("c.txt", b"", "holds no sentence"),
    "one-line-end": ("c.txt", b"\n", "holds no sentence"),
    "blank": ("c.txt", b"\n\n   \n\t\n", "only empty lines"),
    "one-sentence": ("c.txt", b"just one sentence\n", "holds 1 item; a corpus needs at least 2"),
    "latin": ("c.txt", b"fine\nfine\ncaf\xe9\n", "line 3: not UTF-8"),
    "utf-16": ("c.txt", "a\nb\n".encode("utf-16"), "line 1: not UTF-8"),
    "zip": ("c.txt", b"PK\x03\x04\xff\xfe\xfd\n", "line 1: not UTF-8"),
    "no-table": ("c.csv", b"", "holds no item"),
    "only-header": ("c.csv", HEADER, "holds no item"),
    "one-triplet": ("c.csv", HEADER + b"a,b,c\n", "at least 2"),
    "two-columns": ("c.csv", b"sent0,sent1\na,b\nc,d\n", "the columns sent0, sent1 do not say"),
    "four-columns": ("c.csv", b"a,b,c,d\n1,2,3,4\n", "the columns a, b, c, d do not say"),
    "scored": ("c.csv", b"sentence1,sentence2,score\na,b,4.8\n", "triplets asks for triplets"),
    "ragged": ("c.csv", HEADER + b"a,b,c\nd,e\n", "line 3: 3 fields were expected, 2 found"),
    "latin-table": ("c.csv", HEADER + b"a,b,c\n\xe9,e,f\n", "line 3: not UTF-8"),
    "open-quote": (
        "c.csv",
        HEADER + b'a,b,c\n"' + b"x" * 200_000,
        "line 3: a quotation never ends",
    ),
    "blank-table": ("c.csv", HEADER + b" , , \n , , \n", "only empty lines"),
    "no-parquet": ("c.parquet", b"hello", "cannot be read"),
    "empty-parquet": ("c.parquet", b"", "cannot be read"),
    "no-neighbours": ("neighbours.txt", b"a\n\nb\n", "no two sentences in a row"),
    "one-pair": ("neighbours.txt", b"a\nb\n", "at least 2"),
    "other-ending": ("c.doc", b"{}", "only files whose names end in"),
    "no-ending": ("corpus", b"a\nb\n", "only files whose names end in"),
}


@pytest.mark.parametrize(("name", "content", "part"), FILES.values(), ids=FILES)
def test_corpus(name: str, content: bytes, part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    given = {
        "c.csv": ["simcse", "--set", "setting=sup", "--set", f"triplets={path}"],
        "neighbours.txt": [
            "diffcse", "--set", "edited=next", "--set", f"sentences=neighbours:{path}",
            "--set", "generator=tiny-bert",
        ],
    }.get(name, ["simcse", "--set", f"sentences={path}"])  # fmt: skip
    refused(["run", *given, *RUN], path, part)


@pytest.mark.parametrize("verb", ["plan", "sweep"])
def test_blank_corpus(verb: str, refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    path = tmp_path / "blank.txt"
    path.write_text("\n \n")
    refused([verb, space("graded-sentences", str(path))], path, "only empty lines")


PAIRS: dict[str, list[Any]] = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, 1]}
TABLES = {
    "other-columns": ({"a": ["x"], "b": ["y"]}, "the columns a, b do not say"),
    "no-label": (
        {"premise": ["a"], "hypothesis": ["b"]},
        "premise, hypothesis do not say",
    ),
    "label-as-text": (PAIRS | {"label": ["0", "yes"]}, "row 2: label 'yes'"),
    "label-as-number": (PAIRS | {"label": [0.0, 0.5]}, "row 2: label '0.5'"),
    "label-as-truth": (PAIRS | {"label": [True, False]}, "row 1: label 'True'"),
    "label-missing": (PAIRS | {"label": [0, None]}, "holds 1 item"),
    "label-unknown": (PAIRS | {"label": [0, 7]}, "row 2: label '7'"),
    "premise-as-number": (PAIRS | {"premise": [1, 2]}, 'column "premise" holds 1'),
    "premise-as-list": (PAIRS | {"premise": [["a"], ["b"]]}, "column \"premise\" holds ['a']"),
    "premise-missing": (PAIRS | {"premise": [None, "a"]}, 'row 1: column "premise" is missing'),
    "unlabelled": (PAIRS | {"label": [-1, -1]}, "holds no item"),
    "one-row": ({name: values[:1] for name, values in PAIRS.items()}, "holds 1 item"),
    "blank": (PAIRS | {"premise": [" ", ""], "hypothesis": ["", "\t"]}, "only empty lines"),
}


@pytest.mark.parametrize(("table", "part"), TABLES.values(), ids=TABLES)
def test_table(table: dict[str, list[Any]], part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.table(table), path)
    refused(["run", "sbert", *RUN, "--set", "setting=sup", "--set", f"pairs={path}"], path, part)


def test_missing_encoders(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    unknown = '"tiny-brt"', "was not found", 'did you mean "tiny-bert"?'
    refused(["sweep", space("[tiny-bert]", "[tiny-brt]")], *unknown)
    refused(["run", "pooling", "--encoder", "tiny-brt", *GRADED], *unknown)
    refused(["eval", "tiny-brt", "--suite", "graded"], *unknown)
    folder = ["run", "pooling", "--encoder", tmp_path, *GRADED]
    refused(folder, tmp_path, "no config.json")


def test_missing_corpora(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    path = space("sentences: graded-sentences", "sentences: graded-sentence")
    refused(["sweep", path], 'unknown corpus "graded-sentence"', 'did you mean "graded-sentences"?')
    run = ["run", "simcse", "--encoder", "tiny-bert", *GRADED]
    refused([*run, "--set", f"sentences={tmp_path}/none.txt"], f"{tmp_path}/none.txt", "no such fi")


def test_missing_suite(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    refused(["eval", "tiny-bert", "--suite", path], path, "there is no such file")


def test_unwritable_store(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = tmp_path / "file" / "store"
    run = ["run", "pooling", "--encoder", "tiny-bert", *GRADED]
    for arguments in (["sweep", space()], run, ["eval", "tiny-bert", "--suite", "graded"]):
        refused([*arguments, "--store", store], store, "cannot be written", "--store")


def test_store_that_cannot_be_read(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    paper = ["plan", "--paper", "diffaug", "--table", "6"]
    for words in (["plan", space()], paper, ["table"], ["list", "trials"], ["show", "4f2a"]):
        refused([*words, "--store", file], f"{file} is a file, not a folder")
