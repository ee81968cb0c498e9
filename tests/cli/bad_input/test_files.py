"""A pipe, a dangling link, a folder or a socket wherever a file or a folder is named, and odd YAML.

One function opens all files of a user. All kinds are tried with one of them; the others are pipes,
at which a verb that does not use that function waits for ever.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.data.senteval import ARCHIVE, SIMCSE
from harness.document import LARGEST
from tests.cli.conftest import Model, Refused, SpaceFile

pytestmark = pytest.mark.slow

PIPE = "a named pipe"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pipe(name: str) -> None:
    """Make a pipe; where a file is, it takes its place."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).unlink(missing_ok=True)
    os.mkfifo(name)


def to_pipe(path: Path) -> None:
    os.mkfifo("pipe")
    path.symlink_to("pipe")


KINDS: list[tuple[str, Callable[[Path], Any]]] = [
    ("a named pipe", os.mkfifo),
    ("a named pipe", to_pipe),
    ("a link to nothing", lambda path: path.symlink_to("nowhere")),
    ("symbolic links", lambda path: path.symlink_to(path)),
    ("a socket", lambda path: socket.socket(socket.AF_UNIX).bind(path.name)),
    ("a device", lambda path: path.symlink_to("/dev/zero")),
    ("a folder", Path.mkdir),
]
"""Words of the sentence, and what makes the path"""


@pytest.mark.parametrize(("words", "make"), KINDS)
def test_every_kind(
    words: str, make: Callable[[Path], Any], refused: Refused, folder: Path
) -> None:
    make(folder / "space.yaml")
    refused(["plan", "space.yaml"], "space.yaml", words)


CORPUS = "run simcse --encoder tiny-bert --set suite=graded --set sentences="
MODEL = "run simcse --encoder ./model --set suite=graded --set sentences=graded-sentences"
PLACES = [
    ("corpus.txt", f"{CORPUS}corpus.txt", PIPE),
    ("corpus.parquet", f"{CORPUS}corpus.parquet", PIPE),
    ("corpus.txt", f"{CORPUS}neighbours:corpus.txt", PIPE),
    ("suite.py", "run simcse --encoder tiny-bert --set suite=suite.py", PIPE),
    ("suite.py", "eval tiny-bert --suite suite.py", PIPE),
    ("plugin.py", "run plugin.py", PIPE),
    ("plugin/__init__.py", "check plugin", PIPE),
    ("vectors.txt", "run glove --set vectors=vectors.txt --set suite=graded", ""),
    ("synonyms.txt", f"{CORPUS}graded-sentences --set synonyms=synonyms.txt", ""),
    ("table.txt", "table --output table.txt", PIPE),
    ("mine", "new mine", "exists already"),
    ("results", f"{CORPUS}graded-sentences --store results", PIPE),
    ("results", "table --store results", PIPE),
    ("results", "list trials --store results", PIPE),
    ("results", "show 4f2a --store results", PIPE),
    ("results", "eval tiny-bert --suite graded --store results", PIPE),
    ("results", "clean --dry-run --store results", "there is no such folder"),
    ("model/config.json", MODEL, "config.json"),
    ("model/config.json", "eval ./model --suite graded", "config.json"),
    ("model/config.json", "compare tiny-bert ./model --suite graded", "config"),
    ("model/config.json", "retrieve ./model query", "config.json"),
    ("model/config.json", "picture ./model --output pictures", "config.json"),
    ("model/model.safetensors", MODEL, PIPE),
    ("model/tokenizer.json", MODEL, PIPE),
]


@pytest.mark.parametrize(("name", "words", "part"), PLACES)
def test_every_place(name: str, words: str, part: str, refused: Refused, model: Model) -> None:
    if name.startswith("model/"):
        model()
    pipe(name)
    refused(words.split(), Path(name).name if part == PIPE else "", part)


@pytest.mark.parametrize("verb", ["plan", "sweep"])
def test_files_of_a_space(verb: str, refused: Refused, space: SpaceFile, model: Model) -> None:
    for name in ("results", "suite.py"):
        pipe(name)
    refused([verb, space(), "--store", "results"], "results", PIPE)
    refused([verb, space("suite: graded\n", "suite: ./suite.py\n")], "suite.py", PIPE)
    model()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        pipe(f"model/{name}")
        refused(["sweep", space(), "--encoder", "./model"], "model")


@pytest.mark.parametrize("name", ["", ARCHIVE, "wiki1m_for_simcse.txt"])
def test_data_in_the_mirror(name: str, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(Path("hub").absolute()))
    pipe(f"hub/datasets/{SIMCSE}/{name}" if name else "hub")
    words = f"{CORPUS}{'wiki1m' if name else 'graded-sentences'}".split()
    refused(["compare", "tiny-bert", "tiny-bert"] if name == ARCHIVE else words, name or "hub")


def test_list_names_what_cannot_be_read(harness: Any) -> None:
    """A space that cannot be read does not keep the others from being listed."""
    pipe("search_spaces/odd.yaml")
    answer = harness("list", "spaces")
    assert answer.code == 0, answer.err
    assert PIPE in answer.out


# YAML that is no YAML, or that is too large to be read

CONTENTS: list[tuple[str | bytes, str]] = [
    ("a: " + "[" * 100_000, "nested too deep"),
    ("".join(" " * n + "a:\n" for n in range(900)), "nested too deep"),
    ("a: &x [*x]\n", "contains itself"),
    ("set:\n  seeds: 1\nset: {}\n", "line 3: set is written twice"),
    ("a: *nobody\n", "line 1: not valid YAML: found undefined alias"),
    ("a: " + "9" * 5000, "5000 digits"),
    ("set: {batch_size: 0x" + "f" * 5000 + "}", ""),
    ("a: !!int ''\n", "not valid YAML"),
    ("a: 2026-13-45\n", ""),
    ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
    ("<<: 3\na: 1\n", "not valid YAML"),
    ("? {a: 1}\n: 1\n", "a key must be a word"),
    ("a: 1\n--- \nb: 1\n", "another document"),
    ("", "must be a mapping of keys to values"),
    ("[1, 2]\n", "must be a mapping"),
    ("set: {}\n\tmethods: {}\n", "line 2: not valid YAML"),
    ("a: 1\nb: 'c\n", "line 3: not valid YAML"),
    (b"a: 1\n" * 4_000_000, f"20000000 bytes; at most {LARGEST}"),
    (b"\0" * 1000, "not valid YAML"),
    ("a: é\n".encode("latin-1"), "not UTF-8"),
    (b"a: \x1b[31m\n", "not valid YAML"),
]
VALUES = ["[" * 3000 + "]" * 3000, "9" * 5000, "1\n--- 2", "{[a]: 1}", "null", ""]
VALUES += ["[[[[1]]]]", "&a [*a]", "2020-01-01", "!!python/name:os.system"]


def test_yaml(refused: Refused, folder: Path) -> None:
    path = folder / "odd.yaml"
    for content, part in CONTENTS:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        refused(["plan", path], path, part)
    for value in VALUES:
        target = ["simcse", "--encoder", "tiny-bert"]
        refused(["run", *target, "--set", f"learning_rate={value}"], "learning_rate")
