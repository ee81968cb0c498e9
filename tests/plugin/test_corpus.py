"""`corpus`: one name of the training corpus for all methods."""

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.trials.trial import Trial, key

GRADED = {"encoder": "tiny-bert", "suite": "graded"}


@pytest.mark.parametrize(
    ("method", "values", "field"),
    [
        ("simcse", {}, "sentences"),
        ("simcse", {"setting": "sup"}, "triplets"),
        ("sbert", {}, "pairs"),
        ("scored_pairs", {}, "scored_pairs"),
        ("d2cse", {"setting": "sup"}, "triplets"),
        ("whitening", {}, "corpus"),
    ],
)
def test_it_is_the_methods_own_corpus(method: str, values: dict[str, Any], field: str) -> None:
    plugin = registry.load(method)
    assert getattr(resolve(plugin, {**values, "corpus": "mine.csv"}), field) == "mine.csv"


def test_both_names_are_one_trial() -> None:
    first = Trial("simcse", {**GRADED, "corpus": "graded-sentences"}, 0)
    assert key(first) == key(Trial("simcse", {**GRADED, "sentences": "graded-sentences"}, 0))
    assert "corpus" not in first.configuration


@pytest.mark.parametrize(
    ("method", "values", "sentence"),
    [
        ("diffaug", {"setting": "semisup"}, "trains on 2 corpora here; name each: "),
        ("simcse", {"sentences": "a.txt"}, "corpus and sentences are one thing; leave out one"),
        ("pooling", {}, 'method pooling has no hyperparameter "corpus"'),
    ],
)
def test_where_it_says_nothing_it_is_refused(
    method: str, values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        resolve(registry.load(method), {**values, "corpus": "mine.txt"})


SPACE = """
encoders: [tiny-bert]
suite: graded
select: {metric: dev}
set: {corpus: graded-sentences}
methods:
  pooling:
  simcse:
  sbert: {setting: sup, set: {corpus: nli-pairs}}
"""


def test_a_space_and_the_command_line_give_it_to_all_methods(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    pooling, simcse, sbert = searches(*load_space(path), Overrides())
    assert "corpus" not in pooling.fixed
    assert simcse.fixed["sentences"] == "graded-sentences"
    assert sbert.fixed["pairs"] == "nli-pairs"
    (again,) = searches(
        *load_space(path), Overrides(methods=("sbert",), values={"corpus": "snli-dev"})
    )
    assert again.fixed["pairs"] == "snli-dev"


def test_a_variant_may_name_it_and_a_grid_names_the_field(tmp_path: Path) -> None:
    path, beginning = tmp_path / "space.yaml", "encoders: [tiny-bert]\nmethods:\n"
    path.write_text(f"{beginning}  simcse:\n    variants: {{mine: {{corpus: graded-sentences}}}}\n")
    (search,) = searches(*load_space(path), Overrides())
    assert search.fixed["sentences"] == "graded-sentences"
    path.write_text(f"{beginning}  simcse:\n    grid: {{corpus: [a.txt]}}\n")
    with pytest.raises(UserError, match="a search names the corpus of simcse itself: sentences"):
        searches(*load_space(path), Overrides())
    path.write_text(f"{beginning}  pooling:\n")
    with pytest.raises(UserError, match='no method here has a hyperparameter "corpus"'):
        searches(*load_space(path), Overrides(values={"corpus": "graded-sentences"}))
