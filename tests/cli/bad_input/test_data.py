"""Models, corpora and stores that are not there, or that are not what they seem to be.

tests/data/test_rows.py and test_tables.py have more mistakes in a corpus, and
tests/data/test_model_contents.py has every kind of weights.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Model, Refused, SpaceFile

pytestmark = pytest.mark.slow

GRADED = ("--set", "suite=graded")
RUN = ["run", "simcse", *GRADED, "--set", "sentences=graded-sentences", "--encoder"]

NO_CONFIG = [
    ('[{"hidden_size": 64}]', "must hold a mapping, not a list"),
    ("null", "must hold a mapping"),
    ("{", "is no JSON"),
    ("[" * 100_000, "is no JSON"),
    ('{"hidden_size": ' + "9" * 5000 + "}", "is no JSON"),
    ('{"hidden_size": NaN}', "hidden_size is nan"),
    (" " * (2**20 + 1), "at most 1048576"),
]


OTHER_MODELS: list[tuple[str, Any]] = [
    *(("model_type", value) for value in ("nosuch", None, ["bert"], "gpt2")),
    *(("hidden_dropout_prob", value) for value in (7, "x")),
    ("hidden_size", 32), ("vocab_size", 77), ("hidden_act", "nosuch"), ("pad_token_id", 10**9),
    ("type_vocab_size", 0),
]  # fmt: skip


def test_config_json(refused: Refused, model: Model, space: SpaceFile) -> None:
    path = model() / "config.json"
    right = json.loads(path.read_text())
    for text, part in [*NO_CONFIG, *((json.dumps(right | {key: v}), key) for key, v in SIZES)]:
        path.write_text(text)
        refused([*RUN, path.parent], path, part)
    path.write_text(json.dumps(right | {"num_attention_heads": 0}))
    for words in (
        ["sweep", space(), "--encoder", path.parent],
        ["plan", space(), "--encoder", path.parent],
        ["eval", path.parent, "--suite", "graded"],
        ["compare", "tiny-bert", path.parent, "--suite", "graded"],
    ):
        refused(words, "num_attention_heads is 0", "whole number from 1 on")
    for key, value in OTHER_MODELS:
        path.write_text(json.dumps(right | {key: value}))
        refused([*RUN, path.parent], path.parent)
    for key, value, part in (
        ("num_hidden_layers", 10**9, "asks for 1000000000 layers"),
        ("hidden_size", 64, "has the shape [729, 128], but config.json asks for [729, 64]"),
        ("hidden_dropout_prob", "x", "'hidden_dropout_prob' with value 'x'"),
    ):
        path.write_text(json.dumps(right | {key: value}))
        refused(["eval", path.parent, "--suite", "graded"], path.parent, part)
    refused(["eval", path, "--suite", "graded"], f'"{path}" is a file: name the folder')


SIZES: list[tuple[str, Any]] = [
    *(("num_attention_heads", value) for value in (0, -2, 3, "two", None, True, 2.5, 10**30)),
    *(("num_hidden_layers", value) for value in (0, 10**12)),
    *(("hidden_size", value) for value in (0, [64], 2**40)),
    *(("vocab_size", value) for value in (0, 2**31)),
    ("max_position_embeddings", 0), ("intermediate_size", 0),
]  # fmt: skip


DAMAGED: list[tuple[str, bytes | None]] = [
    *(("model.safetensors", content) for content in (b"", b"hello", b"\xff" * 8 + b"{}")),
    *(("tokenizer.json", content) for content in (b"", b"[]", b"{", b"{}", b"\xe9", None)),
    *(("tokenizer_config.json", content) for content in (b"[]", b"null")),
]
"""File of a model -> its content; without a vocabulary, transformers makes an empty tokenizer, with
which all sentences have the same vector"""


def test_damaged_file(refused: Refused, model: Model) -> None:
    folder = model()
    for name, content in DAMAGED:
        right = (folder / name).read_bytes()
        (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
        refused([*RUN, folder], folder, "" if "model" in name else "tokenizer")
        if content in (b"{", b"{}", None):
            refused(["eval", folder, "--suite", "graded"], folder, "tokenizer")
        (folder / name).write_bytes(right)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    refused(["eval", folder, "--suite", "graded"], folder, "tokenizer")
    foreign = '[{"idx": 0, "name": "0", "path": "", "type": "os.system"}]'
    for modules in ("[]", "{", '{"a": 1}', "[3]", foreign):
        (folder / "modules.json").write_text(modules)
        refused(["eval", folder, "--suite", "graded"], folder)


TINY = ("--encoder", "tiny-bert", *GRADED, "--set", "max_steps=2")
HEADER = b"sent0,sent1,hard_neg\n"
FILES = [
    ("c.txt", b"\n\n   \n\t\n", "only empty lines"),
    ("c.txt", b"", "holds no sentence"),
    ("c.txt", b"just one sentence\n", "holds 1 item; a corpus needs at least 2"),
    ("c.txt", b"fine\nfine\ncaf\xe9\n", "line 3: not UTF-8"),
    ("c.csv", HEADER, "holds no item"),
    ("c.csv", b"sentence1,sentence2,score\na,b,4.8\n", "triplets asks for triplets"),
    ("c.csv", HEADER + b" , , \n , , \n", "only empty lines"),
    ("c.csv", HEADER + b"a,b,c\nd,caf\xe9,f\n", "line 3: not UTF-8"),
    ("c.parquet", b"hello", "cannot be read"),
    ("neighbours.txt", b"a\nb\n", "at least 2"),
    ("c.doc", b"{}", "only files whose names end in"),
]


def test_corpus(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    for name, content, part in FILES:
        path = tmp_path / name
        path.write_bytes(content)
        options = {
            "c.csv": ["simcse", "--set", "setting=sup", "--set", f"triplets={path}"],
            "neighbours.txt": ["diffcse", "--set", "edited=next", "--set", "generator=tiny-bert",
                               "--set", f"sentences=neighbours:{path}"],
        }.get(name, ["simcse", "--set", f"sentences={path}"])  # fmt: skip
        refused(["run", *options, *TINY], path, part)
    path = tmp_path / "blank.txt"
    path.write_text("\n \n")
    for verb in ("plan", "sweep"):
        refused([verb, space("graded-sentences", str(path))], path, "only empty lines")


PAIRS: dict[str, list[Any]] = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, 1]}
TABLES = [
    (PAIRS | {"label": [0.0, 0.5]}, "row 2: label '0.5'"),
    (PAIRS | {"label": [True, False]}, "row 1: label 'True'"),
    (PAIRS | {"label": [0, None]}, "holds 1 item"),
    (PAIRS | {"premise": [["a"], ["b"]]}, "column \"premise\" holds ['a']"),
    (PAIRS | {"premise": [None, "a"]}, 'row 1: column "premise" is missing'),
    (PAIRS | {"label": [-1, -1]}, "holds no item"),
    (PAIRS | {"premise": [" ", ""], "hypothesis": ["", "\t"]}, "only empty lines"),
]


def test_table(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    run = ["run", "sbert", *TINY, "--set", "setting=sup", "--set", f"pairs={path}"]
    for table, part in TABLES:
        pq.write_table(pa.table(table), path)
        refused(run, path, part)


def test_what_is_not_there(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    unknown = '"tiny-brt"', "was not found", 'did you mean "tiny-bert"?'
    refused(["sweep", space("[tiny-bert]", "[tiny-brt]")], *unknown)
    refused(["run", "pooling", "--encoder", "tiny-brt", *GRADED], *unknown)
    for words in (["eval", "tiny-brt"], ["compare", "tiny-bert", "tiny-brt"]):
        refused([*words, "--suite", "graded"], *unknown)
    refused(["picture", "tiny-brt", "--output", "pictures"], *unknown)
    refused(["run", "pooling", "--encoder", tmp_path, *GRADED], tmp_path, "no config.json")
    both = ["--encoder", "tiny-bert", "--set", "encoder=mini-bert"]
    refused(["run", "pooling", *both], "are two encoders")
    path = space("sentences: graded-sentences", "sentences: graded-sentence")
    refused(["sweep", path], 'unknown corpus "graded-sentence"', 'did you mean "graded-sentences"?')
    path = tmp_path / "none.txt"
    refused([*RUN, "tiny-bert", "--set", f"sentences={path}"], path, "no such file")
    refused(["retrieve", "tiny-bert", "a", "--texts", path], path, "no such file")
    path = tmp_path / "none.py"
    refused(["eval", "tiny-bert", "--suite", path], path, "there is no such file")
    refused(["show", "nobody/nothing:train"], 'data set "nobody/nothing" was not found')
    refused(["show", "4f2a"], tmp_path / "store", '"4f2a"', "harness list trials")
    for words in (["compare", "tiny-bert", "tiny-bert"], ["retrieve", "tiny-bert", "a"]):
        refused(words, "senteval.tar", "set HARNESS_HUB")


def test_stores_that_cannot_be_used(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    evaluation = ["eval", "tiny-bert", "--suite", "graded"]
    for words in (["sweep", space()], [*RUN, "tiny-bert"], evaluation):
        refused([*words, "--store", file / "store"], file / "store", "cannot be written", "--store")
    paper = ["plan", "--paper", "diffaug", "--table", "6"]
    for words in (["plan", space()], paper, ["table"], ["list", "trials"], ["show", "4f2a"]):
        refused([*words, "--store", file], f"{file} is a file, not a folder")
