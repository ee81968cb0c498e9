"""SentEval's archive as the readers of its data sets meet it: the real one, and made-up ones."""

import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.data.corpora import source
from harness.data.readers import Corpus
from tests.archives import write_archive

ARCHIVE = "datasets/princeton-nlp/datasets-for-simcse/senteval.tar"


def read(name: str | Path) -> Corpus:
    """Read the corpus with this name."""
    found = source(str(name))
    return found.corpus(found.paths())


@pytest.fixture(scope="module")
def members(hub: Path) -> dict[str, bytes]:
    """Member of the real archive -> its raw content."""
    with tarfile.open(hub / ARCHIVE) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


@pytest.fixture
def make_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """make_archive({member: text}): a mirror whose archive has these members; returns its path.

    `prefix`: what stands before the name of every member. `encoding`: of the texts.
    """
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))

    def make(texts: Mapping[str, str], prefix: str = "", encoding: str = "utf-8") -> Path:
        members = {prefix + name: text for name, text in texts.items()}
        return write_archive(tmp_path / ARCHIVE, members, encoding)

    return make
