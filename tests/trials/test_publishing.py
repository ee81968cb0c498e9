"""Published stores have the scores and say nothing of the machine."""

import getpass
import platform
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.errors import UserError
from harness.trials.merging import merge
from harness.trials.publishing import publish, without_folder
from harness.trials.record import Record
from harness.trials.store import Store
from tests.trials.test_store import record


def of_this_machine(number: int, **different: object) -> Record:
    """A record that names the machine wherever one may."""
    home = str(Path.home())
    configuration = {
        "encoder": f"{home}/models/my-bert", "sentences": "~/corpora/mine.txt",
        "learning_rate": 3e-5, "generator": "organisation/name", "files": [f"{home}/one.txt"],
    }  # fmt: skip
    return record(
        number, host=platform.node(), reason=f"graded: {home}/data.txt is missing",
        encoder=f"{home}/models/my-bert", configuration=configuration,
        corpora={f"{home}/corpora/sized.txt": 1234}, weights_digest="0" * 64, **different,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "trials")
    store.write(of_this_machine(1))
    store.write(of_this_machine(2, status="partial"))
    store.write(of_this_machine(3, status="failed"))
    return store


def texts(folder: Path) -> str:
    """All that is in the files of a folder; Parquet compresses, so its rows are printed."""
    content = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            content += [str(pq.read_table(path).to_pylist()), str(pq.read_schema(path).metadata)]
        if path.is_file():
            content.append(str(path.relative_to(folder)) + path.read_bytes().decode("latin-1"))
    return "\n".join(content)


def test_nothing_of_the_machine(store: Store, tmp_path: Path) -> None:
    """The same store gives the same files."""
    for name in ("public", "again"):
        assert publish(store, tmp_path / name) == 2
    published = texts(tmp_path / "public")
    assert published == texts(tmp_path / "again")
    for word in {platform.node(), str(Path.home()), str(tmp_path), f"/{getpass.getuser()}/"}:
        assert word == "/" or word not in published, word
    kept = ("my-bert", "mine.txt", "one.txt", "sized.txt", "organisation/name", "learning_rate")
    assert not [word for word in kept if word not in published]


@pytest.mark.slow
def test_others_merge_it(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that cannot be read, and so is not published, is named."""
    (store.folder / "notes.parquet").write_text("no record")
    publish(store, tmp_path / "public")
    assert "notes.parquet" in caplog.text
    public, into = Store(tmp_path / "public" / "trials"), Store(tmp_path / "theirs")
    found = merge([public], into)
    assert (found.new, found.conflicts) == (2, [])
    theirs, ours = into.get(record(1).key), store.get(record(1).key)
    assert ours.difference(theirs) is None
    assert (theirs.host, theirs.reason, theirs.source_digest) == (None, None, ours.source_digest)
    assert merge([public], store).conflicts == []


def test_what_cannot_be_published_is_refused(tmp_path: Path) -> None:
    """Also by a folder of the user, whatever the folder is in which theirs lies."""
    named = (f"my search in {Path.home()}/x", f"of data/{Path.home().name}/x and others")
    for number, method in enumerate(named, 7):
        apart = Store(tmp_path / str(number))
        apart.write(record(number, method=method))
        with pytest.raises(UserError, match="the column method names this machine"):
            publish(apart, tmp_path / "public")
    with pytest.raises(UserError, match="no finished trial"):
        publish(Store(tmp_path / "none"), tmp_path / "public")
    assert not (tmp_path / "public").exists()


def test_folders() -> None:
    for text, expected in {
        "/home/me/model/": "model",
        "./plugins/mine": "mine",
        "a/b/c.txt": "c.txt",
        "neighbours:/mnt/secret project/wiki.txt": "neighbours:wiki.txt",
        "neighbours:~/a b/wiki.txt": "neighbours:wiki.txt",
        "models/mine/bert": "bert",
        "a/b/c.csv?first=a&second=b": "c.csv?first=a&second=b",
    }.items():
        assert without_folder(text) == expected
    hub = "organisation/name"
    for text in (
        "bert-base-uncased", hub, "neighbours:wiki1m", f"{hub}/triplet:train",
        f"{hub}/pair?first=a&second=b", 'This sentence of "{s}" means [MASK].',
    ):  # fmt: skip
        assert without_folder(text) == text
