"""Meeting of ranks: a file in a temporary folder of any name; others that do not come."""

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from harness import ranks
from harness.ranks import NotMet, is_lost, joined
from harness.trials.workers import on_loopback
from tests.programs import started


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


@pytest.mark.slow
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
    assert ranks.rank_count() == 1


def be_rank_1(address: str) -> None:
    with joined(1, 2, address):
        torch.distributed.barrier()


# The worker of a sweep has many trials, one after the other.
@pytest.mark.process
def test_a_process_whose_others_did_not_come_meets_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "RANK_SECONDS", 1)
    with pytest.raises(NotMet), joined(0, 2, f"file://{tmp_path / 'first'}"):
        pass
    monkeypatch.setattr(ranks, "RANK_SECONDS", 60)
    with on_loopback() as address, started(__name__, address, environment=os.environ) as other:
        with joined(0, 2, address):
            torch.distributed.barrier()
        assert other.wait(60) == 0


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Application timeout caused pair closure"),
        RuntimeError("[../gloo/transport/tcp/pair.cc:554] Connection closed by peer [127.0.0.1]"),
        RuntimeError("[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1ms for recv"),
        torch.distributed.DistNetworkError("the client socket has failed"),
        torch.distributed.DistBackendError("NCCL error in: ProcessGroupNCCL.cpp"),
    ],
)
def test_every_error_of_a_lost_rank_is_known(error: Exception) -> None:
    """The text of gloo is not always with the name of its file; torch has classes of its own."""
    assert is_lost(error)
    assert not is_lost(ValueError(str(error)))
    assert not is_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


if __name__ == "__main__":
    be_rank_1(sys.argv[1])
