"""Models, corpora and stores that are not there."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]


def test_unknown_encoder(refused: Refused, space: SpaceFile) -> None:
    refused(
        ["sweep", space("[tiny-bert]", "[tiny-brt]")],
        '"tiny-brt"',
        "was not found",
        'did you mean "tiny-bert"?',
    )


def test_unknown_encoder_of_one_run(refused: Refused) -> None:
    refused(
        ["run", "pooling", "--encoder", "tiny-brt", "--set", "suite=graded"],
        "tiny-brt",
        'did you mean "tiny-bert"?',
    )


def test_folder_that_is_no_encoder(refused: Refused, tmp_path: Path) -> None:
    refused(
        ["run", "pooling", "--encoder", tmp_path, "--set", "suite=graded"],
        tmp_path,
        "no config.json",
    )


def test_unknown_corpus(refused: Refused, space: SpaceFile) -> None:
    path = space("sentences: graded-sentences", "sentences: graded-sentence")
    refused(["sweep", path], 'unknown corpus "graded-sentence"', 'did you mean "graded-sentences"?')


def test_corpus_file_that_is_not_there(refused: Refused, tmp_path: Path) -> None:
    arguments = [
        "--encoder",
        "tiny-bert",
        "--set",
        "suite=graded",
        "--set",
        f"sentences={tmp_path}/none.txt",
    ]
    refused(["run", "simcse", *arguments], f"{tmp_path}/none.txt", "no such file")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.txt", b"", "holds no sentence"),
        ("latin.txt", b"fine\ncaf\xe9\n", "line 2: not UTF-8"),
    ],
)
def test_corpus_file_that_cannot_be_read(
    name: str, content: bytes, reason: str, refused: Refused, space: SpaceFile, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    refused(
        ["sweep", space("sentences: graded-sentences", f"sentences: {tmp_path / name}")],
        name,
        reason,
    )


def test_unwritable_store(refused: Refused, space: SpaceFile, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = tmp_path / "file" / "store"
    run = ["run", "pooling", "--encoder", "tiny-bert", "--set", "suite=graded"]
    for arguments in (["sweep", space()], run):
        refused([*arguments, "--store", store], store, "cannot be written", "--store")


@pytest.mark.parametrize("verb", ["plan", "table", "list", "show"])
def test_store_that_cannot_be_read(
    verb: str, refused: Refused, space: SpaceFile, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    arguments = {"plan": [space()], "list": ["trials"], "show": ["4f2a"], "table": []}[verb]
    refused([verb, *arguments, "--store", tmp_path / "file"], tmp_path / "file")
