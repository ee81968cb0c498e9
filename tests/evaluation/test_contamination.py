"""Texts of test sets that training corpora have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.data.readers import Corpus
from harness.evaluation import overlap
from harness.evaluation.overlap import contamination
from harness.evaluation.suites import suite
from harness.trials.shared_parts import missing_parts
from harness.trials.trial import Trial

COPIED = 6
"""Pairs of the test that a corpus has: 1 % of its 600"""


def graded() -> Any:
    return suite("graded").load("graded")


@pytest.fixture
def leaking(tmp_path: Path) -> Callable[[int], Path]:
    """Writes scored pairs of which so many are pairs of the test, in another form and order."""

    def write(copied: int) -> Path:
        test = graded()
        rows = [
            f"{second.upper()} !\t{first}\t1"
            for first, second in zip(test.first[:copied], test.second[:copied], strict=True)
        ]
        path = tmp_path / f"{copied}.tsv"
        lines = ["sentence1\tsentence2\tscore", *rows, "one more\tand this\t2", "a\tb\t3"]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def test_pairs_count_where_both_texts_are_in_one_item(leaking: Callable[[int], Path]) -> None:
    report = contamination([str(leaking(COPIED))], suite("graded"))
    test = graded()
    firsts, texts = set(test.first[:COPIED]), {*test.first[:COPIED], *test.second[:COPIED]}
    assert report == {
        "graded/sentences": len(set(test.texts)), "graded/exact": len(firsts),
        "graded/normalised": len(texts), "graded/pairs": len(test), "graded/pairs_together": COPIED,
    }  # fmt: skip


def test_corpora_of_a_trial_are_taken_together(tmp_path: Path) -> None:
    test = graded()
    names = [tmp_path / "one.txt", tmp_path / "two.txt"]
    # The two texts of a pair in two items or two corpora are no pair.
    names[0].write_text("\n".join([test.first[0], test.second[0]]), encoding="utf-8")
    names[1].write_text("\n".join([test.second[0], test.first[1]]), encoding="utf-8")
    found = contamination(list(map(str, names)), suite("graded"))
    assert found["graded/exact"] == len({test.first[0], test.second[0], test.first[1]})
    assert found["graded/pairs_together"] == 0


def test_it_is_computed_once_for_a_corpus_as_it_is(
    leaking: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    path, kept = leaking(COPIED), tmp_path / "cache" / "overlaps"
    first = contamination([str(path)], suite("graded"))
    made = {file: file.stat().st_mtime_ns for file in kept.rglob("*.npy")}
    assert contamination([str(path)], suite("graded")) == first
    assert {file: file.stat().st_mtime_ns for file in kept.rglob("*.npy")} == made
    path.write_text(path.read_text("utf-8") + "\nx y\tz\t1", encoding="utf-8")
    contamination([str(path)], suite("graded"))
    assert len([*kept.rglob("*.npy")]) == 2 * len(made) > 0


@pytest.mark.slow
def test_forms_without_a_letter_are_no_overlap() -> None:
    corpus = Corpus((["...", "?!"], ["-", "x"]), np.array([1.0, 2.0]))
    assert {each.figures["normalised"] for each in overlap.overlaps(corpus) if each.figures} == {0}


def test_without_tests_there_is_none(leaking: Callable[[int], Path]) -> None:
    """A suite's dev score alone asks for no figures, and leaves none that the suite would find."""
    corpora, whole = [str(leaking(COPIED + 1))], suite("graded")  # a corpus that no cache knows
    assert contamination([], whole) == {}, "nothing is trained"
    assert contamination(corpora, whole.dev_alone) == {}
    assert contamination(corpora, whole)["graded/pairs_together"] == COPIED + 1


def test_a_sweep_counts_it_before_the_final_trials(leaking: Callable[[int], Path]) -> None:
    values = {"encoder": "tiny-bert", "suite": "graded", "pairs": str(leaking(1))}
    final, search = (Trial("sbert", values, 0, role) for role in ("final", "search"))
    title = f"what {values['pairs']} has of the suite graded"
    parts = {part.title: part for part in missing_parts(final)}
    assert not parts[title].computes
    assert {part.title for part in missing_parts(search)} == set(parts) - {title}
    parts[title].make(lambda _: None, ())
    assert title not in {part.title for part in missing_parts(final)}
