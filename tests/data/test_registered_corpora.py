"""A Python file that registers a corpus: what it gives, and what is refused."""

from pathlib import Path

import pytest

from harness.data.corpora import count_items, source
from harness.errors import UserError
from harness.sweeps.workers.files import file_list
from harness.trials.trial import Trial, key

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
    assert found.corpus(found.paths()).columns == (["A red apple", " ", "A green pear"],)
    assert count_items(str(corpus)) == 3


def test_scores_and_labels_stand_behind_the_texts(corpus: Path) -> None:
    scored = source(str(written(corpus.parent, "scored pairs", "(line, 'x', 2.5)")))
    read = scored.corpus(scored.paths())
    assert read.labels is not None
    assert read.labels.tolist() == [2.5] * 3
    assert len(read.columns) == 2
    assert scored.labelled


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
    path = written(corpus.parent, shape, item)
    with pytest.raises(UserError, match=why):
        _items(path)


def _items(path: Path) -> None:
    found = source(str(path))
    found.corpus(found.paths())


def test_the_path_alone_is_the_name(corpus: Path) -> None:
    with pytest.raises(UserError, match="is named by its path alone"):
        source(f"{corpus}?limit=2")


def test_code_and_data_are_in_the_key_and_travel(corpus: Path) -> None:
    values = {"encoder": "tiny-bert", "suite": "graded", "sentences": str(corpus)}
    trial = Trial("simcse", values, 0)
    first = key(trial)
    listed = {Path(file.path).name for file in file_list(trial).files}
    assert {"posts.py", "posts.txt"} <= listed
    data = corpus.with_name("posts.txt")
    text = data.read_text()
    data.write_text(text + "One more\n")
    assert key(trial) != first
    data.write_text(text)
    assert key(trial) == first
    with corpus.open("a") as code:
        code.write("# another code\n")
    assert key(trial) != first
