"""A cache that cannot be used is refused in one sentence, before anything starts."""

from pathlib import Path

import pytest

from harness.errors import UserError
from harness.files import check_cache
from tests.cli.conftest import Harness, SpaceFile, check_sentence

VERBS = (
    "run simcse --encoder tiny-bert --set suite=graded --store STORE",
    "eval tiny-bert --suite graded", "retrieve tiny-bert query", "picture tiny-bert",
    "compare tiny-bert tiny-bert --suite graded", "check simcse", "sweep SPACE --store STORE",
)  # fmt: skip


KINDS = {"a file": "file", "below a file": "file/cache", "a name that is too long": "x" * 300,
         "not writable": "/proc/cache"}  # fmt: skip
"""Kind -> what HARNESS_CACHE names; nobody can write the last, not even root, for whom permissions
do not count"""


@pytest.mark.slow
def test_every_verb_that_needs_the_cache_asks_first(
    harness: Harness, space: SpaceFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep does so before Ray starts, which would start processes; nothing is written."""
    (tmp_path / "file").touch()
    named = {"SPACE": str(space()), "STORE": str(tmp_path / "store")}
    before = sorted(tmp_path.rglob("*"))
    tried = [(verb, "file") for verb in VERBS] + [(VERBS[0], cache) for cache in KINDS.values()]
    for verb, place in tried:
        cache = str(tmp_path / place)
        monkeypatch.setenv("HARNESS_CACHE", cache)
        answer = harness(*(named.get(word, word) for word in verb.split()))
        check_sentence(answer, f"HARNESS_CACHE names {cache[:80]}", ", which cannot be written (")
        assert answer.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before


def test_caches_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not there yet is fine, and is not made."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "a" / "b"))
    check_cache()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("HARNESS_CACHE", "cache")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UserError, match=r"^HARNESS_CACHE names cache, which cannot be written"):
        check_cache()

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HARNESS_CACHE")
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(UserError, match="set HARNESS_CACHE to a folder"):
        check_cache()
