"""Retrieval: recall against a plain search and a calibration, and lists of nearest sentences.

The calibration is that of diffcse.md, section 5, with a real encoder.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import ortho_group

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.evaluation.retrieval import PROTOCOLS, Retrieval, RetrievalProtocol
from harness.evaluation.search import nearest_texts

# Every combination, also those that are not in PROTOCOLS.
ALL_PROTOCOLS = [
    RetrievalProtocol(*values)  # type: ignore[arg-type]
    for values in product(("distinct", "all", "pairs"), ("string", "position"), ("partner", "any5"))
]


@pytest.fixture
def pairs() -> Pairs:
    """60 pairs of 70 sentences, many of them several times, none with itself; 25 have gold 5.0."""
    generator = np.random.default_rng(0)
    numbers = [generator.choice(70, 2, replace=False) for _ in range(60)]
    first, second = ([f"Sentence {pair[side]}" for pair in numbers] for side in (0, 1))
    return Pairs(first, second, np.where(np.arange(60) < 25, 5.0, generator.uniform(0, 4.9, 60)))


def embedded(pairs: Pairs, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of the first and of the second sentences; paraphrases are near one another."""
    generator, vectors = np.random.default_rng(seed), {}
    for text in sorted({*pairs.first, *pairs.second}):
        vectors[text] = generator.normal(size=6).astype(np.float32)
    for one, two, gold in zip(pairs.first, pairs.second, pairs.gold, strict=True):
        vectors[two] = vectors[one] + vectors[two] / 2 if gold == 5 else vectors[two]
    return tuple(
        np.array([vectors[text] for text in texts]) for texts in (pairs.first, pairs.second)
    )


def searched(
    pairs: Pairs, first: np.ndarray, second: np.ndarray, protocol: RetrievalProtocol
) -> list[float]:
    """The same recall by lists and sorting, query by query."""
    texts = pairs.texts
    rows = np.concatenate([first, second]).astype(np.float64)
    fives = [number for number in range(len(pairs)) if pairs.gold[number] == 5]
    queries = [(number, number + len(pairs)) for number in fives]
    queries += [(partner, query) for query, partner in queries]
    partners: dict[str, set[str]] = {}
    for query, partner in queries:
        partners.setdefault(texts[query], set()).add(texts[partner])
    hits = np.zeros(4)
    for query, partner in queries:
        corpus = list(range(len(texts)))
        if protocol.corpus != "all":
            corpus = [row for row in corpus if texts[row] not in texts[:row]]
        if protocol.corpus == "pairs":
            corpus = [row for row in corpus if texts[row] in partners]
        if protocol.exclude == "string" or protocol.corpus != "all":
            corpus = [row for row in corpus if texts[row] != texts[query]]
        else:
            corpus = [row for row in corpus if row != query]
        # Rounded, so that copies tie and stay in the order of the rows.
        cosines = {
            row: round(float(rows[row] @ rows[query] / np.linalg.norm(rows[row])), 9)
            for row in corpus
        }
        corpus.sort(key=cosines.__getitem__, reverse=True)
        wanted = partners[texts[query]] if protocol.accept == "any5" else {texts[partner]}
        nearest = [texts[row] in wanted for row in corpus]
        if protocol.corpus == "all" and protocol.accept == "partner":
            nearest = [row == partner for row in corpus]
        hits += [any(nearest[:cutoff]) for cutoff in (1, 3, 5, 10)]
    return list(100 * hits / len(queries))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
def test_recall_against_a_plain_search(pairs: Pairs, protocol: RetrievalProtocol) -> None:
    vectors = embedded(pairs)
    recall = Retrieval(pairs, *vectors).recall(protocol)
    assert list(recall) == [1, 3, 5, 10]
    assert list(recall.values()) == pytest.approx(searched(pairs, *vectors, protocol), abs=1e-9)
    assert 0 < recall[3] < recall[10]


def test_scale_rotation_and_order_change_nothing(pairs: Pairs) -> None:
    """The order matters only where one of several copies has to be found."""
    vectors = np.stack(embedded(pairs))
    turned = (1e3 * vectors @ ortho_group.rvs(6, random_state=0)).astype(np.float32)
    order = np.random.default_rng(3).permutation(len(pairs))
    second, first = ([texts[number] for number in order] for texts in (pairs.first, pairs.second))
    other = Pairs(first, second, pairs.gold[order])
    for protocol in ALL_PROTOCOLS:
        expected = Retrieval(pairs, *vectors).recall(protocol)
        assert Retrieval(pairs, *turned).recall(protocol) == pytest.approx(expected, abs=1e-6)
        if protocol.corpus != "all" or protocol.accept == "any5":
            assert Retrieval(other, *turned[::-1, order]).recall(protocol) == pytest.approx(
                expected, abs=1e-6
            )


def test_ties_copies_and_no_paraphrase(pairs: Pairs) -> None:
    """A partner is not found first when another sentence has its vector."""
    tied = Pairs(["one", "two"], ["eins", "zwei"], np.array([5.0, 1.0]))
    first, second = np.eye(3)[[0, 1]], np.eye(3)[[1, 2]]
    second[0] += 1e-8
    assert Retrieval(tied, first, second).recall() == {1: 0, 3: 100, 5: 100, 10: 100}
    # A partner that equals the query is never found.
    copies = Pairs(["same", "one"], ["same", "two"], np.array([5.0, 0.0]))
    retrieval = Retrieval(copies, np.eye(2), np.eye(2)[[0, 0]])
    assert retrieval.recall()[10] == 0
    assert retrieval.recall(PROTOCOLS["position"])[10] == 100
    with pytest.raises(TrialFailure, match=r"no pair has the gold score 5\.0"):
        Retrieval(Pairs(pairs.first, pairs.second, pairs.gold - 1), *embedded(pairs))


@pytest.mark.parametrize("inside", [True, False])
def test_the_nearest_sentences(pairs: Pairs, inside: bool) -> None:
    """The query is a sentence of the set, which is left out in any case, or another one."""
    first, second = embedded(pairs)
    vectors = dict(
        zip(pairs.texts, np.concatenate([first, second]).astype(np.float64), strict=True)
    )
    query = pairs.second[4].lower() if inside else "elsewhere"
    vector = 3 * second[4].astype(np.float64)
    cosines = {
        text: float(other @ vector / np.linalg.norm(other) / np.linalg.norm(vector))
        for text, other in vectors.items()
    }
    expected = sorted(
        (text for text in vectors if text.lower() != query), key=lambda text: -cosines[text]
    )
    searched = list(vectors), np.array(list(vectors.values()))
    nearest = nearest_texts(query, vector, *searched, 1000)
    assert [text for text, _ in nearest] == expected
    assert [cosine for _, cosine in nearest] == pytest.approx(
        [cosines[text] for text in expected], abs=2**-24
    )
    assert len(nearest) == len(vectors) - inside
    assert nearest_texts(query, vector, *searched, 3) == nearest[:3]


@pytest.mark.parametrize("value", [np.nan, np.inf, 0])
def test_a_query_without_direction_has_no_neighbours(value: float) -> None:
    with pytest.raises(TrialFailure, match='embedding of "a query" has no direction'):
        nearest_texts("a query", np.full(2, value), ["one", "two"], np.eye(2), 3)
