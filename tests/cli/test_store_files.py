"""A store with odd things in it, or on a full disk: sentences, no hang, and nothing is lost."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.trials.store import Store
from tests.trials.test_store import record

AtEachWrite = Callable[[Callable[[Path], None]], None]
RUN = (
    "run", "simcse", "--encoder", "tiny-bert",
    *("--set", "suite=graded", "--set", "sentences=graded-sentences", "--set", "max_steps=2"),
    *("--set", "batch_size=8", "--set", "precision=fp32"),
)  # fmt: skip
LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from harness.cli import main
main()
"""
"""Runs the command line where no file can be larger than the first argument"""


def add(store: Store, number: int) -> str:
    """Write a finished final trial, and return its key."""
    store.write(record(number, suite="graded"))
    return f"{number:032x}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one trial."""
    found = Store(tmp_path / "store")
    add(found, 1)
    return found


ODD: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
}
"""Kind -> what puts it there, which looks like a record by its name"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("folder", "odd"),
        ("pipe", "compact-odd"),
        ("link to nothing", f"{2:032x}"),
        ("link to itself", f"{2:032x}-unfinished"),
    ],
)
def test_what_is_no_file_is_named(kind: str, name: str, store: Store, harness: Any) -> None:
    path = store.folder / f"{name}.parquet"
    ODD[kind](path)
    for verb in (["list", "trials"], ["table"]):
        answer = harness(*verb, "--store", store.folder)
        assert answer.code == 0
        said = " ".join((answer.out + answer.err).split())  # a note breaks between words
        reason = said.partition(f"{path.name} ")[2].partition(")")[0]
        assert {"folder": "folder", "pipe": "pipe"}.get(kind, "link") in reason
        assert "simcse" in answer.out
    assert store.get(f"{2:032x}") is None
    assert harness("show", f"{1:032x}", "--store", store.folder).code == 0
    store.compact(at_least=1)
    assert os.path.lexists(path)


@pytest.mark.slow
def test_newest_trials_are_listed_and_all_on_request(store: Store, harness: Any) -> None:
    for number in range(2, 54):
        add(store, number)
    lines = harness("list", "trials", "--store", store.folder).out.splitlines()
    assert lines[0] == "3 earlier trials; --all lists them, too"
    assert [line.split()[0] for line in lines[1:3]] == [f"{4:032x}"[:10]] * 2
    assert len(lines) == 51
    assert len(harness("list", "trials", "--all", "--store", store.folder).out.splitlines()) == 53


# A full disk


@pytest.mark.slow
def test_scores_are_printed_where_they_cannot_be_stored(
    tmp_path: Path, harness: Any, at_each_write: AtEachWrite
) -> None:
    disk = ["full"]

    def write(_: Path) -> None:
        if disk:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at_each_write(write)
    command = (*RUN, "--store", tmp_path / "store")
    answer = harness(*command)
    disk.clear()
    assert answer.code == 2
    [line] = [each for each in answer.err.splitlines() if each.startswith("Error")]
    assert "No space left on device" in line
    assert "make room there, and give the same command again" in line
    assert "graded-dev: " in answer.out
    assert "graded: " in answer.out
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
def test_scores_of_a_suite_are_printed_where_they_cannot_be_stored(
    tmp_path: Path, harness: Any, at_each_write: AtEachWrite
) -> None:
    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at_each_write(full)
    answer = harness("eval", "tiny-bert", "--suite", "graded", "--store", tmp_path / "store")
    assert answer.code == 2
    assert answer.err.count("make room there") == 1
    assert "graded (" in answer.out


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("limit", [20_000, 100_000])
def test_files_that_cannot_grow(limit: int, tmp_path: Path, harness: Any, cache: Path) -> None:
    """With 20 kB not even a record fits for sure, and with 100 kB a record fits, but no weights."""
    assert harness(*RUN, "--store", tmp_path / "before").code == 0  # the cache has what it needs
    environment = {name: value for name, value in os.environ.items() if name != "HARNESS_HUB"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *RUN, "--store", str(tmp_path / "store")],
        env={**environment, "HARNESS_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    if limit < 64 * 1024:
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("Error: ")
        assert "File too large" in done.stderr
        assert not (tmp_path / "store").exists()
    else:
        assert done.returncode == 0, done.stderr
        assert "not kept" in done.stderr
        [record] = Store(tmp_path / "store").read().records()
        assert record.finished
        assert not Store(tmp_path / "store").weights(record.key).exists()
