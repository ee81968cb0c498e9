"""A pipe, a dangling link, a folder or a socket wherever a file or a folder is named."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.data.senteval import ARCHIVE, SIMCSE
from harness.files import shipped

pytestmark = pytest.mark.slow

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
Odd = Callable[[str], Path]
Model = Callable[[], Path]

KINDS = {
    "pipe": "a named pipe",
    "link-to-nothing": "a link to nothing",
    "circle": "symbolic links",
    "link-to-pipe": "a named pipe",
    "socket": "a socket",
    "device": "a device",
    "folder": "a folder",
}
"""Kind -> its words in the sentence. All are tried with one file, since one function opens all;
the other files are pipes, at which a verb waits for ever that does not use that function."""
RUN = ("simcse", "--encoder", "tiny-bert", "--set", "suite=graded")
GRADED = ("--set", "sentences=graded-sentences")


@pytest.fixture(params=["pipe"])
def odd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Odd:
    """odd(name): a path in the folder of the test that is there and is no file."""
    kind = request.param

    def make(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "link-to-pipe":
            os.mkfifo(path.with_name("pipe"))
            path.symlink_to(path.with_name("pipe"))
        elif kind == "socket":
            monkeypatch.chdir(path.parent)  # since the path of a socket has at most 108 bytes
            socket.socket(socket.AF_UNIX).bind(path.name)
            monkeypatch.chdir(tmp_path)
        elif kind == "folder":
            path.mkdir()
        else:
            places = {"link-to-nothing": path.with_name("nowhere"), "circle": path}
            path.symlink_to(places.get(kind, Path("/dev/zero")))
        return path

    return make


@pytest.fixture
def words(request: pytest.FixtureRequest) -> str:
    """What the sentence calls the kind of the test."""
    return KINDS[request.node.callspec.params["odd"]]


@pytest.mark.parametrize("odd", KINDS, indirect=True)
def test_search_space(odd: Odd, words: str, refused: Refused) -> None:
    refused(["plan", odd("space.yaml")], "space.yaml", words)


@pytest.mark.parametrize("name", ["corpus.txt", "corpus.csv", "corpus.parquet", "neighbours"])
def test_corpus(name: str, odd: Odd, words: str, refused: Refused) -> None:
    path = f"neighbours:{odd('corpus.txt')}" if name == "neighbours" else odd(name)
    refused(["run", *RUN, "--set", f"sentences={path}"], "corpus", words)


@pytest.mark.parametrize("verb", ["run", "eval", "plan"])
def test_suite(verb: str, odd: Odd, words: str, refused: Refused, space: SpaceFile) -> None:
    path = odd("suite.py")
    arguments = {
        "run": ["run", *RUN[:3], "--set", f"suite={path}"],
        "eval": ["eval", "tiny-bert", "--suite", path],
        "plan": ["plan", space("suite: graded\n", f"suite: {path}\n")],
    }[verb]
    refused(arguments, "suite", words)


def test_plugin_file(odd: Odd, words: str, refused: Refused) -> None:
    refused(["run", odd("plugin.py")], "plugin.py", words)


def test_main_file_of_a_plugin(odd: Odd, words: str, refused: Refused) -> None:
    refused(["check", odd("plugin/__init__.py").parent], "__init__.py", words)


def test_other_file_of_a_plugin(odd: Odd, words: str, refused: Refused, tmp_path: Path) -> None:
    shutil.copytree(shipped("methods") / "simcse", tmp_path / "plugin")
    odd("plugin/other.py")
    refused(["run", tmp_path / "plugin"], "other.py", words)


@pytest.mark.parametrize("verb", ["run", "sweep", "eval", "compare", "retrieve", "picture"])
def test_configuration_of_a_model(
    verb: str, odd: Odd, refused: Refused, model: Model, space: SpaceFile
) -> None:
    folder = model()
    odd("model/config.json")
    arguments: dict[str, list[object]] = {
        "run": ["run", "simcse", "--encoder", folder, *RUN[3:], *GRADED],
        "sweep": ["sweep", space(), "--encoder", folder],
        "eval": ["eval", folder, "--suite", "graded"],
        "compare": ["compare", "tiny-bert", folder, "--suite", "graded"],
        "retrieve": ["retrieve", folder, "a query"],
        "picture": ["picture", folder, "--output", "pictures"],
    }
    refused(arguments[verb], "config.json")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_file_of_a_model(
    verb: str, name: str, odd: Odd, words: str, refused: Refused, model: Model, space: SpaceFile
) -> None:
    folder = model()
    odd(f"model/{name}")
    run = ["run", "simcse", "--encoder", folder, *RUN[3:], *GRADED]
    refused(run if verb == "run" else ["sweep", space(), "--encoder", folder], name, words)


VERBS = ["run", "plan", "table", "list", "show", "sweep", "eval", "clean"]
"""Verbs with `--store`"""


@pytest.mark.parametrize("verb", VERBS)
def test_store(verb: str, odd: Odd, words: str, refused: Refused, space: SpaceFile) -> None:
    arguments: dict[str, list[object]] = {
        "run": ["run", *RUN, *GRADED],
        "plan": ["plan", space()],
        "table": ["table"],
        "list": ["list", "trials"],
        "show": ["show", "4f2a"],
        "sweep": ["sweep", space()],
        "eval": ["eval", "tiny-bert", "--suite", "graded"],
        "clean": ["clean", "--dry-run"],
    }
    part = "there is no such folder" if verb == "clean" else words
    refused([*arguments[verb], "--store", odd("results")], "results", part)


def test_table_file(odd: Odd, words: str, refused: Refused) -> None:
    refused(["table", "--output", odd("table.txt")], "table.txt", words)


def test_new_method(odd: Odd, refused: Refused) -> None:
    refused(["new", odd("mine")], "mine", "exists already")


def test_mirror(odd: Odd, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(odd("hub")))
    refused(["run", *RUN, *GRADED], "hub")


@pytest.mark.parametrize("name", [ARCHIVE, "wiki1m_for_simcse.txt"])
def test_data_in_the_mirror(
    name: str, odd: Odd, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "hub"))
    odd(f"hub/datasets/{SIMCSE}/{name}")
    run = ["run", *RUN]  # which trains on wiki1m
    refused(["compare", "tiny-bert", "tiny-bert"] if name == ARCHIVE else run, name)


def test_file_of_vectors(odd: Odd, refused: Refused) -> None:
    refused(["run", "glove", "--set", f"vectors={odd('vectors.txt')}", "--set", "suite=graded"])


def test_file_of_synonyms(odd: Odd, refused: Refused) -> None:
    refused(["run", *RUN, *GRADED, "--set", f"synonyms={odd('synonyms.txt')}"])


def test_list_names_what_cannot_be_read(
    odd: Odd, words: str, harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A space that cannot be read does not keep the others from being listed."""
    monkeypatch.chdir(tmp_path)
    odd("search_spaces/odd.yaml")
    answer = harness("list", "spaces")
    assert answer.code == 0, answer.err
    assert words in answer.out
