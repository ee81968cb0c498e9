"""One command in a process of its own for each way to end: no traceback, and no store."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LineOf, SpaceFile, check_sentence

SWEEP = ("sweep", "--no-local")


def check_process(answer: Any, store: Path, *parts: object) -> None:
    check_sentence(answer, *parts)
    assert "Traceback" not in answer.out + answer.err
    assert not store.exists()


@pytest.mark.slow
def test_what_it_parses_and_what_no_machine_has(
    process: Any, space: SpaceFile, store: Path, line_of: LineOf
) -> None:
    path = space("learning_rate", "learning_rat")
    answer = process(*SWEEP, path, "--store", store)
    check_process(answer, store, line_of(path, "learning_rat"), 'did you mean "learning_rate"?')
    answer = process(*SWEEP, space(), "--store", store, "--cpus-per-trial", 999)
    check_process(answer, store, "no machine has 999 CPUs", "lower --cpus-per-trial")


@pytest.mark.slow
def test_a_missing_file_is_answered_without_waiting_for_the_hub(
    process: Any, store: Path, tmp_path: Path
) -> None:
    """The answer comes at once, although the Hub is asked and cannot be reached."""
    mirror, home = tmp_path / "mirror", str(tmp_path / "hub")
    mirror.mkdir()
    environment = {"HARNESS_HUB": str(mirror), "HF_HUB_OFFLINE": None, "HF_HOME": home}
    words = ("run", "simcse", "--encoder", "tiny-bert", "--store", store)
    answer = process(*words, environment=environment, timeout=600)
    check_process(answer, store, mirror, "was not found", "set HARNESS_HUB")
