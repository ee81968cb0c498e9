"""One command in a process of its own for each way to end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.bad_input.conftest import LineOf, Sentence, SpaceFile


@pytest.fixture
def check_process(sentence: Sentence) -> Callable[..., None]:
    """check_process(answer, store, part, ...): one sentence, no traceback, no store."""

    def check(answer: Any, store: Path, *parts: object) -> None:
        sentence(answer, *parts)
        assert "Traceback" not in answer.out + answer.err
        assert not store.exists()

    return check


def test_process_refuses_what_it_parses(
    process: Any,
    check_process: Sentence,
    space: SpaceFile,
    tmp_path: Path,
    line_of: LineOf,
) -> None:
    path, store = space("learning_rate", "learning_rat"), tmp_path / "store"
    answer = process("sweep", "--no-local", path, "--store", store)
    check_process(answer, store, line_of(path, "learning_rat"), 'did you mean "learning_rate"?')


@pytest.mark.slow
def test_process_refuses_a_missing_file_without_waiting_for_the_hub(
    process: Any,
    check_process: Sentence,
    tmp_path: Path,
) -> None:
    """The answer comes at once, although the Hub is asked and cannot be reached."""
    mirror, store = tmp_path / "mirror", tmp_path / "store"
    mirror.mkdir()
    environment = {
        "HARNESS_HUB": str(mirror),
        "HF_HUB_OFFLINE": None,
        "HF_HOME": str(tmp_path / "hub"),
    }
    answer = process(
        "run",
        "simcse",
        "--encoder",
        "tiny-bert",
        "--store",
        store,
        environment=environment,
        timeout=600,
    )
    check_process(answer, store, mirror, "was not found", "set HARNESS_HUB")


def test_process_refuses_a_mirror_that_is_no_folder(
    process: Any,
    check_process: Sentence,
    space: SpaceFile,
    tmp_path: Path,
) -> None:
    store, environment = tmp_path / "store", {"HARNESS_HUB": str(tmp_path / "none")}
    answer = process("sweep", "--no-local", space(), "--store", store, environment=environment)
    check_process(answer, store, f"HARNESS_HUB names {tmp_path / 'none'}", "no folder")


@pytest.mark.slow
def test_process_refuses_resources_that_no_machine_has(
    process: Any,
    check_process: Sentence,
    space: SpaceFile,
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    answer = process("sweep", "--no-local", space(), "--store", store, "--cpus-per-trial", 999)
    check_process(answer, store, "no machine has 999 CPUs", "lower --cpus-per-trial")
