"""Short names of corpora in a search space."""

from pathlib import Path

import pytest

from harness.errors import UserError
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space

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


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A space with a corpus of its own."""
    rows = "".join(f'{{"text a": "row {n}", "year": {2012 + n}}}\n' for n in range(4))
    (tmp_path / "rows.jsonl").write_text(rows)
    path = tmp_path / "space.yaml"
    path.write_text(SPACE.replace("FILE", str(tmp_path / "rows.jsonl")))
    return path


def test_a_name_stands_for_the_same_corpus_in_all_trials(space: Path, tmp_path: Path) -> None:
    whole = f"{tmp_path}/rows.jsonl?sentence=text%20a&where.year=2012&where.year=2013&limit=2"
    one, two, grid = searches(*load_space(space), Overrides())
    assert one.fixed["sentences"] == two.fixed["sentences"] == whole
    assert grid.rounds[0]["sentences"] == ["graded-sentences", whole]
    assert one.declared.items("contrastive") == 2


def test_the_command_line_knows_the_name(space: Path) -> None:
    (found,) = searches(*load_space(space), Overrides(("esimcse",), values={"sentences": "mine"}))
    assert found.fixed["sentences"].endswith("&limit=2")


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
def test_what_is_wrong_is_said_with_its_line(space: Path, old: str, new: str, message: str) -> None:
    space.write_text(space.read_text().replace(old, new))
    with pytest.raises(UserError) as error:
        searches(*load_space(space), Overrides())
    assert message in str(error.value)
