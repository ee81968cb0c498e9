"""Corpora by name, how many items one has, and the texts of a large one, which are on disk."""

from collections.abc import Callable
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import pytest

from harness.data.corpora import SOURCES, count_items, source
from harness.data.texts import ITEMS_AT_ONCE, text_columns
from harness.errors import UserError
from harness.sweeps.workers.files import file_list
from harness.trials.trial import Trial, key
from tests.data.conftest import read

# Corpora by name: what a name means, and how many items a corpus has.


def test_only_plain_sentences_are_unlabelled() -> None:
    unlabelled = {name for name, found in SOURCES.items() if not found.labelled}
    assert unlabelled == {"wiki1m", "graded-sentences"}


def test_a_corpus_that_is_not_here_has_its_published_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    for name, items in (
        ("graded-sentences", 6000),
        ("graded-triplets", 1500),  # which are embedded
        ("wiki1m", 1_000_000),
        ("nli-triplets", 275_601),
        ("nli-pairs", 942_069),
        ("nli-entailments", 183_416 + 130_899),
    ):
        assert count_items(name) == items


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "columns", "items"),
    [("snli-dev", 2, 9_842), ("snli-test", 2, 9_824), ("snli-heldout", 2, 19_666),
     ("snli-heldout-entailments", 2, 6_697), ("stsb-similar", 2, 1_406),
     ("nli-triplets", 3, 6_337), ("wiki1m", 1, 16_931)],
)  # fmt: skip
@pytest.mark.usefixtures("hub")
def test_the_real_corpora_have_their_published_sizes(name: str, columns: int, items: int) -> None:
    entry, corpus = source(name), read(name)
    assert [len(column) for column in corpus.columns] == [items] * columns
    # An empty text has become a space.
    assert all(text for column in corpus.columns for text in column)
    # Of these two, the mirror has only a part.
    assert items == entry.items or name in ("nli-triplets", "wiki1m")
    if name in ("snli-dev", "snli-test", "snli-heldout"):
        assert corpus.labels is not None
        assert set(corpus.labels.tolist()) == {0, 1, 2}
        assert len(corpus.labels) == items


# The texts of a large corpus, which are on disk.

MANY = 2 * ITEMS_AT_ONCE + 5
"""Items that are read in three parts"""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The places of the lines that were read."""
    read, places = SpooledTemporaryFile.readline, list[int]()

    def line(file: Any, *size: int) -> Any:
        places.append(file.tell())
        return read(file, *size)

    monkeypatch.setattr(SpooledTemporaryFile, "readline", line)
    return places


@pytest.mark.parametrize(
    "ask",
    [lambda column: [column[item] for item in range(MANY)], lambda column: column[:], list],
    ids=["one by one", "a slice", "all"],
)
def test_neighbours_are_read_together(ask: Callable[..., list[str]], reads: list[int]) -> None:
    expected = [f"sentence {number}" for number in range(MANY)]
    [column] = text_columns(((text,) for text in expected), "no item")
    assert all(one == other for one, other in zip(ask(column), expected, strict=True))
    assert len(reads) == 3
    assert column[-1] == expected[-1]
    assert column[3:MANY:4000] == expected[3:MANY:4000]


# A Python file that registers a corpus: what it gives, and what is refused.

CODE = """\
from pathlib import Path

from harness.data.registered_corpora import register_corpus


@register_corpus("SHAPE", files=lambda: [Path(__file__).with_name("posts.txt")], licence="ours")
def posts(paths):
    for line in paths[0].read_text().splitlines():
        yield ITEM
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A file that registers the lines of another file."""
    (tmp_path / "posts.txt").write_text("A red apple\n\nA green pear\n")
    return written(tmp_path, "sentences", "line")


def written(folder: Path, shape: str, item: str) -> Path:
    path = folder / "posts.py"
    path.write_text(CODE.replace("SHAPE", shape).replace("ITEM", item))
    return path


def test_a_function_gives_the_items(corpus: Path) -> None:
    found = source(str(corpus))
    assert found.shape == "sentences"
    assert found.licence == "ours"
    assert read(corpus).columns == (["A red apple", " ", "A green pear"],)
    assert count_items(str(corpus)) == 3


def test_scores_and_labels_stand_behind_the_texts(corpus: Path) -> None:
    scored = read(written(corpus.parent, "scored pairs", "(line, 'x', 2.5)"))
    assert scored.labels is not None
    assert scored.labels.tolist() == [2.5] * 3
    assert len(scored.columns) == 2
    assert source(str(corpus)).labelled


@pytest.mark.parametrize(
    ("shape", "item", "why"),
    [
        ("pairs", "line", r"item 1 is 'A red apple', not \(first, second\)"),
        ("scored pairs", "(line, line, 'high')", "the score of item 1 is 'high'"),
        ("labelled pairs", "(line, line, 3)", "the label of item 1 is 3"),
        ("sentences", "7", "item 1 is 7"),
        ("sentences", "1 / 0", "cannot be read: ZeroDivisionError"),
        ("sentence", "line", 'no shape "sentence"; did you mean "sentences"'),
    ],
)
def test_what_does_not_fit_is_refused(corpus: Path, shape: str, item: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        read(written(corpus.parent, shape, item))

    with pytest.raises(UserError, match="is named by its path alone"):
        source(f"{corpus}?limit=2")


def test_code_and_data_are_in_the_key_and_travel(corpus: Path) -> None:
    values = {"encoder": "tiny-bert", "suite": "graded", "sentences": str(corpus)}
    trial = Trial("simcse", values, 0)
    first = key(trial)
    listed = {Path(file.path).name for file in file_list(trial).files}
    assert {"posts.py", "posts.txt"} <= listed
    for path in (corpus.with_name("posts.txt"), corpus):
        text = path.read_text()
        path.write_text(text + "# One more\n")
        assert key(Trial("simcse", values, 0)) != first
        path.write_text(text)
        assert key(Trial("simcse", values, 0)) == first
