"""SentEval's archive as the readers of its data sets meet it: the real one, and made-up ones."""

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.data.corpora import source
from harness.data.readers import Corpus

ARCHIVE = "datasets/princeton-nlp/datasets-for-simcse/senteval.tar"


def read(name: str | Path) -> Corpus:
    """Read the corpus with this name."""
    found = source(str(name))
    return found.corpus(found.paths())


@pytest.fixture(scope="module")
def members(hub: Path) -> dict[str, bytes]:
    """Member of the real archive -> its raw content."""
    found = {}
    with tarfile.open(hub / ARCHIVE) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            if file is not None:
                found[member.name] = file.read()
    return found


@pytest.fixture
def make_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """make_archive({member: text}): a mirror whose archive has these members; returns its path.

    `prefix`: what stands before the name of every member. `encoding`: of the texts.
    """
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))

    def make(texts: Mapping[str, str], prefix: str = "", encoding: str = "utf-8") -> Path:
        path = tmp_path / ARCHIVE
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w") as tar:
            for name, text in texts.items():
                content = text.encode(encoding)
                entry = tarfile.TarInfo(prefix + name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        return path

    return make
