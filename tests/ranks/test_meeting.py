"""The file in which ranks find one another, in a temporary folder of any name."""

import tempfile
from pathlib import Path

import pytest

from harness.ranks import joined
from harness.trials.workers import on_loopback


@pytest.mark.parametrize("name", ["a#b", "a?b=c", "a%41 b"])
def test_ranks_meet_in_the_folder_that_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with on_loopback() as address, joined(0, 1, address):
        assert [path.name for path in folder.glob("*/*")] == ["meeting"]
    assert [path.name for path in tmp_path.iterdir()] == [name]
