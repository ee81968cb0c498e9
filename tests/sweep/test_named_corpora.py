"""Short names of corpora in a search space."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.sweeps.spaces.search import Search

SPACE = """\
suite: graded
select: {metric: dev}
encoders: [tiny-bert]
corpora:
  mine:
    data: FILE
    columns: {sentence: text a}
    where: {year: [2012, 2013]}
    limit: 2
methods:
  simcse:
    set: {sentences: mine}
    variants: {ours: , theirs: {temperature: 0.1}}
  esimcse:
    grid: {sentences: [graded-sentences, mine]}
"""


Found = Callable[..., list[Search]]


@pytest.fixture
def found(searches_of: Found, tmp_path: Path) -> Found:
    """found(old, new, option=value, ...): the searches of the space, with one text replaced."""
    rows = "".join(f'{{"text a": "row {n}", "year": {2012 + n}}}\n' for n in range(4))
    (tmp_path / "rows.jsonl").write_text(rows)
    text = SPACE.replace("FILE", str(tmp_path / "rows.jsonl"))
    return lambda old="", new="", **options: searches_of(text.replace(old, new or old), **options)


def test_a_name_stands_for_the_same_corpus_in_all_trials(found: Found, tmp_path: Path) -> None:
    """The command line knows it, too."""
    whole = f"{tmp_path}/rows.jsonl?sentence=text%20a&where.year=2012&where.year=2013&limit=2"
    one, two, grid = found()
    assert one.fixed["sentences"] == two.fixed["sentences"] == whole
    assert grid.rounds[0]["sentences"] == ["graded-sentences", whole]
    assert one.declared.items("contrastive") == 2
    (alone,) = found(methods=("esimcse",), values={"sentences": "mine"})
    assert alone.fixed["sentences"] == whole


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  mine:", "  wiki1m:", "line 5: corpora.wiki1m: this is the name of a corpus that comes"),
        ("{sentence: text a}", "{sentense: text a}", "line 7: corpora.mine.columns: unknown role"),
        ("limit: 2", "limit: none", "line 9: corpora.mine.limit: "),
        ("limit: 2", "most: 2", "line 9: corpora.mine.most: unknown key; valid: columns, data"),
        ("sentences: mine}", "sentences: mien}", 'unknown corpus "mien"'),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    found: Found, old: str, new: str, message: str
) -> None:
    with pytest.raises(UserError) as error:
        found(old, new)
    assert message in str(error.value)
