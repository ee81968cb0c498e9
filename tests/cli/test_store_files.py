"""A store with odd things in it, or on a full disk: sentences, no hang, and nothing is lost."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.trials.store import Store
from tests.cli.conftest import Harness, Shown, check_sentence, sets
from tests.programs import run_module
from tests.trials.test_store import record

AtEachWrite = Callable[[Callable[[Path], None]], None]
RUN = (
    "run", "simcse", "--encoder", "tiny-bert",
    *sets(suite="graded", sentences="graded-sentences", max_steps=2, batch_size=8),
    *sets(precision="fp32"),
)  # fmt: skip
LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from harness.cli import main
main()
"""
"""Runs the command line where no file can be larger than the first argument"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one trial."""
    found = Store(tmp_path / "store")
    found.write(record(1, suite="graded"))
    return found


ODD: dict[str, tuple[str, Callable[[Path], object]]] = {
    "folder": ("odd", Path.mkdir),
    "pipe": ("compact-odd", os.mkfifo),
    "link to nothing": (f"{2:032x}", lambda path: path.symlink_to("nowhere")),
    "link to itself": (f"{2:032x}-unfinished", lambda path: path.symlink_to(path.name)),
}
"""Kind -> its name, which looks like a record's, and what puts it there"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_is_named(kind: str, store: Store, shown: Shown, harness: Harness) -> None:
    name, make = ODD[kind]
    path = store.folder / f"{name}.parquet"
    make(path)
    for verb in (["list", "trials"], ["table"]):
        answer = harness(*verb, "--store", store.folder)
        assert answer.code == 0
        said = " ".join((answer.out + answer.err).split())  # a note breaks between words
        reason = said.partition(f"{path.name} ")[2].partition(")")[0]
        assert kind.split()[0] in reason
        assert "simcse" in answer.out
    assert store.get(f"{2:032x}") is None
    shown("show", f"{1:032x}", "--store", store.folder)
    store.compact(at_least=1)
    assert os.path.lexists(path)


@pytest.mark.slow
def test_newest_trials_are_listed_and_all_on_request(store: Store, shown: Shown) -> None:
    for number in range(2, 54):
        store.write(record(number, suite="graded"))
    lines = shown("list", "trials", "--store", store.folder).splitlines()
    assert lines[0] == "3 earlier trials; --all lists them, too"
    assert [line.split()[0] for line in lines[1:3]] == [f"{4:032x}"[:10]] * 2
    assert len(lines) == 51
    assert len(shown("list", "trials", "--all", "--store", store.folder).splitlines()) == 53


@pytest.mark.slow
def test_scores_are_printed_where_they_cannot_be_stored(
    tmp_path: Path, harness: Harness, at_each_write: AtEachWrite
) -> None:
    disk = ["full"]

    def write(_: Path) -> None:
        if disk:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at_each_write(write)
    measured = harness("eval", "tiny-bert", "--suite", "graded", "--store", tmp_path / "store")
    assert measured.code == 2
    assert measured.err.count("make room there") == 1
    assert "graded (" in measured.out
    command = (*RUN, "--store", tmp_path / "store")
    answer = harness(*command)
    disk.clear()
    check_sentence(
        answer, "No space left on device", "make room there, and give the same command again"
    )
    again = harness(*command)
    assert again.code == 0
    lost, kept = (
        {name: float(score) for name, score in re.findall(r"  (graded\S*): (\d\S*)", each.out)}
        for each in (answer, again)
    )
    assert set(kept) == {"graded-dev", "graded"}
    assert kept == {name: pytest.approx(lost[name], abs=0.01) for name in kept}
    assert len(Store(tmp_path / "store").finished_keys()) == 1


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("limit", [20_000, 100_000])
def test_files_that_cannot_grow(limit: int, tmp_path: Path, shown: Shown, cache: Path) -> None:
    """Not even a record fits for sure in 20 kB; in 100 kB a record fits, but no weights."""
    shown(*RUN, "--store", tmp_path / "before")  # the cache has what it needs
    environment = {name: value for name, value in os.environ.items() if name != "HARNESS_HUB"}
    (tmp_path / "limited.py").write_text(LIMITED, encoding="utf-8")
    done = run_module(
        "limited", limit, *RUN, "--store", tmp_path / "store",
        environment={**environment, "HARNESS_CACHE": str(cache)}, folder=tmp_path,
    )  # fmt: skip
    if limit < 64 * 1024:
        assert done.code == 2
        assert done.err.splitlines()[-1].startswith("Error: ")
        assert "File too large" in done.err
        assert not (tmp_path / "store").exists()
    else:
        assert done.code == 0, done.err
        assert "not kept" in done.err
        [record] = Store(tmp_path / "store").read().records()
        assert record.finished
        assert not Store(tmp_path / "store").weights(record.key).exists()
