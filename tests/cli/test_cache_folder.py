"""A cache that cannot be used is refused in one sentence, before anything starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.files import check_cache
from tests.cli.conftest import Harness, check_sentence

VERBS = (
    "eval tiny-bert --suite graded", "retrieve tiny-bert query", "picture tiny-bert",
    "compare tiny-bert tiny-bert --suite graded", "check simcse",
)  # fmt: skip


KINDS = {"a file": "file", "below a file": "file/cache", "a name that is too long": "x" * 300,
         "not writable": "/proc/cache"}  # fmt: skip
"""Kind -> what HARNESS_CACHE names; nobody can write the last, not even root, for whom permissions
do not count"""


@pytest.fixture
def refused(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, list[object]], None]:
    """refused(kind, arguments): check that the command is refused and writes nothing."""
    (tmp_path / "file").touch()

    def call(kind: str, arguments: list[object]) -> None:
        cache = str(tmp_path / KINDS[kind])
        monkeypatch.setenv("HARNESS_CACHE", cache)
        before = sorted(tmp_path.rglob("*"))
        answer = harness(*arguments)
        check_sentence(answer, f"HARNESS_CACHE names {cache[:80]}", ", which cannot be written (")
        assert answer.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before

    return call


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_that_cannot_be_written(kind: str, refused: Any, tmp_path: Path) -> None:
    words = ["run", "simcse", "--encoder", "tiny-bert", "--set", "suite=graded"]
    refused(kind, [*words, "--store", tmp_path / "store"])


@pytest.mark.slow
@pytest.mark.parametrize("words", VERBS)
def test_every_verb_that_needs_the_cache_asks_first(words: str, refused: Any) -> None:
    refused("a file", words.split())


@pytest.mark.slow
def test_a_sweep_asks_before_ray_starts(
    refused: Any, space: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.init", lambda *_, **__: pytest.fail("Ray starts"))
    refused("a file", ["sweep", space(), "--store", tmp_path / "store"])


def test_a_relative_cache_in_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", "cache")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UserError, match=r"^HARNESS_CACHE names cache, which cannot be written"):
        check_cache()


def test_nobody_knows_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HARNESS_CACHE")
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(UserError, match="set HARNESS_CACHE to a folder"):
        check_cache()


def test_a_cache_that_is_not_there_yet_is_fine_and_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "a" / "b"))
    check_cache()
    assert list(tmp_path.iterdir()) == []
