"""A cache that cannot be used is refused in one sentence, before anything starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.files import check_cache

VERBS: dict[str, list[str]] = {
    "run": ["simcse", "--encoder", "tiny-bert", "--set", "suite=graded"],
    "eval": ["tiny-bert", "--suite", "graded"],
    "retrieve": ["tiny-bert", "a query"],
    "compare": ["tiny-bert", "tiny-bert", "--suite", "graded"],
    "picture": ["tiny-bert"],
    "check": ["simcse"],
}


def a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file"


KINDS: dict[str, Callable[[Path], Path]] = {
    "a file": a_file,
    "below a file": lambda folder: a_file(folder) / "cache",
    "a name that is too long": lambda folder: folder / ("x" * 300),
    # Nobody can write there, not even root, for whom permissions do not count.
    "not writable": lambda _: Path("/proc/cache"),
}
"""What HARNESS_CACHE names -> what makes it in a folder"""


@pytest.fixture
def refused(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, list[object]], None]:
    """refused(kind, arguments): check that the command is refused and writes nothing."""

    def call(kind: str, arguments: list[object]) -> None:
        cache = str(KINDS[kind](tmp_path))
        monkeypatch.setenv("HARNESS_CACHE", cache)
        before = sorted(tmp_path.rglob("*"))
        answer = harness(*arguments)
        assert answer.code == 2, answer.out + answer.err
        assert answer.err.startswith(f"Error: HARNESS_CACHE names {cache[:80]}")
        assert ", which cannot be written (" in answer.err
        assert answer.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before

    return call


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_that_cannot_be_written(kind: str, refused: Any, tmp_path: Path) -> None:
    refused(kind, ["run", *VERBS["run"], "--store", tmp_path / "store"])


@pytest.mark.slow
@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"run"}))
def test_every_verb_that_needs_the_cache_asks_first(verb: str, refused: Any) -> None:
    refused("a file", [verb, *VERBS[verb]])


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
