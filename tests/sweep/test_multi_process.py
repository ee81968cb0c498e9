"""CUDA's multi-process service of a sweep; a program stands in its place."""

import os
from pathlib import Path

import pytest

from harness.sweeps.cluster.lifetime import CONTROL, LOGS, PIPES, multi_process_service

pytestmark = pytest.mark.process

PROGRAM = """\
#!/bin/sh
if [ "$1" = -f ]; then
    echo "GPUs ${CUDA_VISIBLE_DEVICES-all}, pipes $CUDA_MPS_PIPE_DIRECTORY" >> NOTES
    mkfifo "$CUDA_MPS_PIPE_DIRECTORY/control"
    read asked < "$CUDA_MPS_PIPE_DIRECTORY/control"
    echo "$asked" >> NOTES
else
    until [ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ]; do sleep 0.01; done
    cat > "$CUDA_MPS_PIPE_DIRECTORY/control"
fi
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Notes of the program that stands in the place of NVIDIA's."""
    notes, program = tmp_path / "notes.txt", tmp_path / CONTROL
    notes.touch()
    program.write_text(PROGRAM.replace("NOTES", str(notes)), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.delenv(PIPES, raising=False)
    return notes


def test_it_serves_in_the_block_and_ends_with_it(notes: Path, tmp_path: Path) -> None:
    with multi_process_service(tmp_path):
        own = tmp_path / "mps"
        assert (os.environ[PIPES], os.environ[LOGS]) == (str(own), str(own))
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert PIPES not in os.environ
    assert LOGS not in os.environ
    # All GPUs are its own, so that their numbers are those of the machine.
    assert notes.read_text().splitlines() == [f"GPUs all, pipes {own}", "quit -t 10"]


def test_a_service_that_does_not_answer_is_killed(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.sweeps.cluster.lifetime.END_SECONDS", 0.1)
    program = tmp_path / CONTROL
    program.write_text(f"#!/bin/sh\necho $$ >> {notes}\nexec sleep 100\n", encoding="utf-8")
    with multi_process_service(tmp_path):
        while not notes.read_text().endswith("\n"):
            pass
    with pytest.raises(ProcessLookupError):
        os.kill(int(notes.read_text().split()[0]), 0)


def test_the_service_of_somebody_else_is_left_alone(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PIPES, "/somewhere")
    with multi_process_service(tmp_path):
        assert os.environ[PIPES] == "/somewhere"
    assert not notes.read_text()
