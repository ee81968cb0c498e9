"""A user's mistake gives one sentence and exit code 2 within seconds, and nothing is written.

The sentence names the place, and the nearest valid name.
"""

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.data.hub import EMBEDDED

Sentence = Callable[..., None]
Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]
Model = Callable[[], Path]
WITHOUT_STORE = {"check", "new"}
"""Verbs that have no `--store`"""
HANGING = 120
"""Seconds after which a command hangs, such as one that has opened a pipe to which nobody writes"""


@pytest.fixture
def sentence() -> Sentence:
    """sentence(answer, part, ...): check for exit code 2 and one line that has all the parts.

    A verb that computes has said before what it does, in short lines.
    """

    def check(answer: Any, *parts: object) -> None:
        assert answer.code == 2, answer.out + answer.err
        *steps, last = answer.err.strip().split("\n")
        assert last.startswith("Error: "), answer.err
        assert len(steps) <= 4, f"more than one line: {answer.err}"
        assert not any(step.startswith(("Error", "Traceback")) for step in steps)
        assert len(last) < 2000, f"too long: {last}"
        for part in parts:
            assert str(part) in last

    return check


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """The path of a store that does not exist, neither before nor after the test."""
    folder = tmp_path / "store"
    yield folder
    assert not folder.exists(), "a refused command has made its store"


@pytest.fixture
def refused(
    harness: Any, sentence: Sentence, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """refused(arguments, part, ...): check that `harness ARGUMENTS --store STORE` is refused.

    The sentence must have all the parts, and no file may be new in the folder of the test, which is
    the working directory.
    """
    monkeypatch.chdir(tmp_path)

    def call(arguments: list[object], *parts: object) -> None:
        own_store = "--store" in arguments or arguments[0] in WITHOUT_STORE
        before = _files(tmp_path)
        with _at_most(HANGING):
            answer = harness(*arguments, *([] if own_store else ["--store", store]))
        sentence(answer, *parts)
        assert _files(tmp_path) == before, "a refused command has written something"

    return call


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError(f"the command hangs for {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def line_of() -> Callable[[Path, str], str]:
    """line_of(path, text): `FILE, line N` for the first line that has this text."""

    def find(path: Path, text: str) -> str:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        number = next(number for number, line in enumerate(lines, 1) if text in line)
        return f"{path}, line {number}"

    return find


@pytest.fixture
def model(tmp_path: Path) -> Callable[[], Path]:
    """model(): a copy of the embedded model, to be damaged."""

    def copy() -> Path:
        return Path(shutil.copytree(EMBEDDED / "models" / "tiny-bert", tmp_path / "model"))

    return copy
