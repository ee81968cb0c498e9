"""`harness logs` prints what a trial has printed, in all of its attempts."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness.trials.output import BoundedLog
from harness.trials.store import Store
from tests.cli.conftest import Harness, Shown, check_sentence, sets
from tests.trials.test_store import record

KEY, OTHER = "ab12" + "0" * 28, "ab13" + "0" * 28
VALUES = {"suite": "graded", "sentences": "graded-sentences", "max_steps": 2, "batch_size": 8}


def log(store: Store, key: str, *attempts: bytes) -> Path:
    """Write the log of a trial."""
    for output in attempts:
        written = BoundedLog(store.log_here(key))
        written.add(output)
        written.close()
    return store.log(key)


@pytest.mark.slow
def test_log_of_a_run_has_all_attempts(
    harness: Any, shown: Shown, process: Any, write_plugin: Any, tmp_path: Path
) -> None:
    plugin, store = write_plugin(tmp_path / "faulty.py", "trained"), Store(tmp_path / "trials")
    for number, command in ((1, harness), (2, process)):
        values = sets(**VALUES, fault="raise")
        answer = command("run", plugin, "--encoder", "tiny-bert", *values, "--store", store.folder)
        assert answer.code == 1
        (key,) = store.logged()
        see = f"what it printed: harness logs {key[:10]} --store {store.folder}"
        assert see in answer.out
        printed = shown("logs", key[:4], "--store", store.folder)
        assert printed.count("== an attempt on ") == number
        # What `print` has shown is in it, and was shown as before.
        assert printed.count("faulty unsup tiny-bert seed 0: ") == number
        assert "faulty unsup tiny-bert seed 0: " in answer.out
    assert printed.count("ValueError: a planted fault") == 1  # pytest itself heeds `logging`
    assert "Traceback" in printed
    assert "a planted fault" in answer.err


def test_key_is_a_unique_prefix_and_controls_are_not_heeded(
    harness: Harness, tmp_path: Path
) -> None:
    store = Store(tmp_path / "trials")
    log(store, KEY, b"\x1b[2J 5 %\r100 %\n\xff\tend\n")
    log(store, OTHER, b"two\n")
    store.write(record(1, key="c" * 32))
    answer = harness("logs", KEY[:4], "--store", store.folder)
    assert answer.out.endswith("?[2J 5 %\n100 %\n\ufffd\tend\n")
    assert harness("logs", "ab13", "--store", store.folder).out.endswith("two\n")
    for key, *parts in (
        ("ab1", 'keys that start with "ab1": ab12000, ab13000; give more'),
        ("cccc", "the trial cccccccccc has no log"),
        ("dddd", "no trial in", 'starts with "dddd"'),
    ):
        check_sentence(harness("logs", key, "--store", store.folder), *parts)


@pytest.mark.slow
def test_follow_goes_on_until_the_trial_ends(harness: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "trials")
    path, claimed = log(store, KEY, b"first\n"), threading.Event()

    def run() -> None:
        with store.claimed(KEY, "a trial"):
            claimed.set()
            for number in range(3):
                time.sleep(0.1)
                with path.open("ab") as file:
                    file.write(f"line {number}\n".encode())

    runs = threading.Thread(target=run)
    runs.start()
    claimed.wait()
    answer = harness("logs", KEY[:4], "--follow", "--store", store.folder)
    runs.join()
    assert answer.out.endswith("first\n" + "".join(f"line {number}\n" for number in range(3)))
