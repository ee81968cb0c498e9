"""How ranks find one another: a file in a temporary folder of any name; others that do not come."""

import socket
import tempfile
from pathlib import Path

import pytest

from harness import ranks
from harness.ranks import NotMet, has_waited, is_lost, joined
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


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_others_that_do_not_come_are_lost(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "RANK_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"file://{tmp_path / 'meeting'}" if kind == "file" else f"tcp://127.0.0.1:{port}"
    with pytest.raises(NotMet, match="did not find one another") as lost, joined(0, 2, address):
        pass
    assert is_lost(lost.value)
    assert has_waited(lost.value)
    assert ranks.rank_count() == 1
