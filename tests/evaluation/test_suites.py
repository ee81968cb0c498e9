"""Suites as plugins, and the changes of vectors that must not change their figures."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure, UserError
from harness.evaluation.catalogue import CARDS, SuiteCard
from harness.evaluation.scores import Scores, Uncertainty
from harness.evaluation.suites import Suite, register, suite
from tests.evaluation.conftest import WordVectors

WORDS = """
the old young small red green cat dog bird horse farmer baker river house street sees likes paints
""".split()  # noqa: SIM905
MINE = """\
from harness.evaluation.suites import Scores, register


class Sentences:
    texts = ["a red bird"]


@register("{name}", {{"task": Sentences}}, list)
def mine(task, data, vectors):
    return Scores({{task: 1.0}})
"""


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """60 pairs with ties and copies; the gold score is the number of words that they share."""
    generator = np.random.default_rng(1)
    first, second, gold = [], [], []
    for number in range(60):
        words = list(generator.choice(WORDS, 5, replace=False))
        kept = number % 6
        first.append(" ".join(words))
        others = [word for word in WORDS if word not in words]
        second.append(" ".join([*words[:kept], *generator.choice(others, 6 - kept)]))
        gold.append(float(kept))
    first[6] = first[0]
    second[11] = first[5]
    return Pairs(first, second, np.asarray(gold), {"one": 25, "two": 35})


def scores(name: str, pairs: Pairs, embed: WordVectors) -> dict[str, float]:
    """Every figure of a suite's scoring function on these pairs."""
    result = suite(name).score(name, pairs, embed(pairs.texts))
    spread = {
        f"{metric}/error": value.standard_error for metric, value in result.uncertainty.items()
    }
    return result.metrics | result.details | spread


def rotated(vectors: np.ndarray) -> np.ndarray:
    matrix, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(12, 12)))
    return vectors @ matrix


def stretched(vectors: np.ndarray) -> np.ndarray:
    return vectors * np.random.default_rng(3).uniform(0.1, 10, (len(vectors), 1))


def widened(vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([vectors, np.zeros_like(vectors)], axis=1)


@pytest.mark.parametrize("name", ["sts", "retrieval", "geometry"])
def test_what_changes_nothing(name: str, pairs: Pairs) -> None:
    """Scale, rotation, more dimensions, the length of each vector, and the order of the pairs.

    The variance along the first component is not about directions. With the protocol `position` of
    retrieval, copies rank in the order of rows.
    """
    whole = Pairs(pairs.first, pairs.second, pairs.gold)
    order = np.random.default_rng(4).permutation(len(pairs))
    first, second = ([texts[row] for row in order] for texts in (pairs.first, pairs.second))
    shuffled = Pairs(first, second, pairs.gold[order])
    swapped = Pairs(pairs.second, pairs.first, pairs.gold, pairs.subsets)
    plain = WordVectors(12)
    for before, after, embed, without in (
        (pairs, pairs, WordVectors(12, lambda vectors: 1000 * vectors), "-"),
        (pairs, pairs, WordVectors(12, lambda vectors: 1e-3 * vectors), "-"),
        (pairs, pairs, WordVectors(12, rotated), "-"),
        (pairs, pairs, WordVectors(12, widened), "-"),
        (pairs, pairs, WordVectors(12, stretched), "first-component"),
        (whole, shuffled, plain, "/position/"),
        (pairs, swapped, plain, "/position/"),
    ):
        expected, computed = scores(name, before, plain), scores(name, after, embed)
        assert len(set(expected.values())) > 2
        assert expected.keys() == computed.keys()
        kept = [metric for metric in expected if without == "-" or without not in metric]
        assert [computed[metric] for metric in kept] == pytest.approx(
            [expected[metric] for metric in kept], abs=1e-6
        )


@pytest.mark.parametrize("name", ["sts", "retrieval", "geometry"])
@pytest.mark.parametrize("value", [0.0, 1.0, float("nan"), float("inf")])
def test_a_constant_or_infinite_embedding_has_no_score(
    name: str, value: float, pairs: Pairs
) -> None:
    with pytest.raises(TrialFailure):
        scores(name, pairs, WordVectors(12, lambda vectors: np.full_like(vectors, value)))


def test_better_vectors_have_better_scores(pairs: Pairs) -> None:
    noise = np.random.default_rng(5).normal(size=(len(pairs.texts), 12))
    assert scores("sts", pairs, WordVectors(12))["sts"] > 80
    assert (
        abs(scores("sts", pairs, WordVectors(12, lambda vectors: noise + 0 * vectors))["sts"]) < 40
    )


def toy(**options: Any) -> tuple[Suite, list[str]]:
    """A suite of three tasks whose scores are sums, and the names of the tasks that are loaded."""
    loaded: list[str] = []

    class Data:
        def __init__(self, name: str, texts: list[str]) -> None:
            loaded.append(name)
            self.texts = texts

    data = {
        "one": lambda: Data("one", ["old cat", "red dog", "old cat"]),
        "two": lambda: Data("two", ["red dog", "green bird"]),
        "dev": lambda: Data("dev", ["old cat", "young horse"]),
    }

    @register(SuiteCard("toy", dev_tasks=("dev",), **options), data, list)
    def score(task: str, _: Data, vectors: np.ndarray) -> Scores:
        spread = {task: Uncertainty(2.0, 0.0, 1.0)}
        return Scores(
            {task: float(np.abs(vectors).sum())}, {f"{task}/rows": float(len(vectors))}, spread
        )

    return score, loaded


TEXT: Any = {"one": "1"}


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        ("one", {"one": 1.0}, r"must return Scores\(\{task: SCORE\}\), not a dict"),
        ("one", 1.0, "not a float"),
        ("one", Scores({"one": math.nan}), "finite numbers; one is nan"),
        ("one", Scores(TEXT), "finite numbers; one is '1'"),
        ("dev", Scores({"other": 1.0}), 'with the score "dev"'),
        ("one", Scores({"one": 1.0, "dev": 1.0}), 'names of their own; "dev" is that of another'),
        ("dev", Scores({"dev": 1.0, "two": 1.0}), 'names of their own; "two" is that of another'),
        ("one", Scores({"one": 1.0, "mean": 1.0}), 'names of their own; "mean" is that of another'),
    ],
)
def test_what_is_no_score_is_named(task: str, given: Any, said: str) -> None:
    card = SuiteCard("toy", dev_tasks=("dev",), average="mean")
    score = register(card, toy()[0].data, list)(lambda *_: given)
    with pytest.raises(TrialFailure, match=f'suite "toy": the function of task "{task}" .*{said}'):
        score.measure(task, lambda texts: np.ones((len(texts), 2)))


def test_no_score_takes_the_place_of_one_of_the_same_name() -> None:
    data = toy()[0].data
    own = register("toy", data, list)(lambda task, *_: Scores({task: 1.0, "spearman": 1.0}))
    with pytest.raises(TrialFailure, match='"one" and "two" both return a score "spearman"'):
        own.score_test(WordVectors())


def test_tests_are_embedded_in_one_pass_over_distinct_texts() -> None:
    toy_suite, loaded = toy(average="mean")
    embed = WordVectors()
    scored = toy_suite.score_test(embed)
    assert embed.calls == [(["old cat", "red dog", "green bird"], False)]
    assert set(scored.metrics) == {"one", "two", "mean"}
    assert scored.details == {"one/rows": 3, "two/rows": 2}
    assert scored.metrics["one"] == pytest.approx(
        np.abs(embed(["old cat", "red dog", "old cat"])).sum()
    )
    assert sorted(loaded) == ["one", "two"]
    toy_suite.score_test(embed)
    assert sorted(loaded) == ["one", "two"], "data are read once"


def test_dev_is_embedded_as_dev() -> None:
    found, loaded = toy()
    embed = WordVectors()
    score = found.score_dev(embed)
    assert embed.calls == [(["old cat", "young horse"], True)]
    assert loaded == ["dev"]
    assert score == pytest.approx(np.abs(embed(["old cat", "young horse"])).sum())
    chosen = replace(toy()[0], select=lambda _, vectors: float(len(vectors)))
    assert chosen.score_dev(embed) == 2


def test_the_average_is_that_of_rounded_scores_and_needs_all() -> None:
    toy_suite, _ = toy(average="mean")
    three = Scores(
        {"one": 1.006, "two": 2.0}, {}, {name: Uncertainty(2.0, 0, 1) for name in ("one", "two")}
    )
    average = toy_suite.averaged(three)
    assert average.metrics == {"mean": pytest.approx(1.505)}
    assert average.uncertainty["mean"].standard_error == pytest.approx(np.sqrt(8) / 2)
    assert toy_suite.averaged(Scores({"one": 1.0})) == Scores({})
    assert toy()[0].averaged(three) == Scores({})


def test_shipped_suites_have_their_names() -> None:
    for name in CARDS:
        assert suite(name).name == name
        assert suite(name) is suite(name)
        assert suite(name).tests
        assert not suite(name).code_digest
    with pytest.raises(UserError, match=r'"transfer"; did you mean "transfer-senteval"\?'):
        suite("transfer")


def test_a_files_suite_cannot_stand_in_for_a_shipped_one(tmp_path: Path) -> None:
    """The shipped suite does not change either."""
    shipped = suite("sts")
    path = tmp_path / "mine.py"
    path.write_text(MINE.format(name="sts"))
    with pytest.raises(UserError, match=r"mine\.py has a suite called sts.*choose another name"):
        suite(str(path))
    path.write_text(MINE.format(name="mine").replace('"task"', '"sickr-dev"'))
    with pytest.raises(UserError, match="sickr-dev, which is a dev score of the shipped suite sts"):
        suite(str(path))
    assert suite("sts") is shipped
    assert set(suite("sts").tests) == {"sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"}
    uses = "from harness.evaluation.sts import correlations, graded, sts\n"
    path.write_text(uses + MINE.format(name="mine"))
    assert suite(str(path)).name == "mine", "it may use what is shipped"


def test_a_files_digest_is_that_of_its_code_and_data(tmp_path: Path) -> None:
    path, data = tmp_path / "mine.py", tmp_path / "data.txt"
    data.write_text("one")
    code = MINE.format(name="mine").replace("list)", f"lambda: [Path({str(data)!r})])")
    path.write_text("from pathlib import Path\n" + code)
    digests = {suite(str(path)).digest()}
    data.write_text("another")
    digests.add(suite(str(path)).digest())
    path.write_text("from pathlib import Path\n# a remark\n" + code)
    digests.add(suite(str(path)).digest())
    assert len(digests) == 3
    assert suite(str(path)) is suite(str(path))
