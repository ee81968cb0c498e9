"""Suites of a folder: figures against pytrec_eval and a plain loop, and what is refused."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
import scipy.stats

from harness.errors import TrialFailure, UserError
from harness.evaluation.catalogue import SuiteCard, card
from harness.evaluation.judged import ranked
from harness.evaluation.kept import keep_pairs, kept_pairs, resampled_scores, score_of
from harness.evaluation.scores import Queries
from harness.evaluation.search import DOCUMENTS_AT_ONCE, QUERIES_AT_ONCE, nearest
from harness.evaluation.suites import check_name, choosing, suite
from harness.report.difference import Scored, over_pairs
from harness.sweeps.spaces.space import load_space
from harness.sweeps.workers.files import file_list
from harness.trials.trial import Trial, key

Folder = Callable[..., Path]
QUERIES = "id,text\nq1,one\nq2,two\nq3,three\n"
DOCUMENTS = "id,text\na,eins\nb,zwei\nc,drei\n"
PAIRS, SCORED = "query,document\n", "query,document,score\n"
NAMES = [f"{letter}{number}" for number in range(40) for letter in "Dd\u00e9"]
"""Ids of documents: large and small letters, and others than ASCII"""
RELEVANT = "query,document,score,split\nq1,a,2,test\nq1,b,1,test\nq2,b,1,dev\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """folder({name: text}): a folder `faq` with three CSV files, and with others in their place."""

    def make(**files: str | None) -> Path:
        texts = {"queries.csv": QUERIES, "documents.csv": DOCUMENTS, "relevant.csv": RELEVANT}
        changed = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
        for name, text in (texts | changed).items():
            path = tmp_path / "faq" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is not None:
                path.write_text(text, encoding="utf-8")
        return tmp_path / "faq"

    return make


def vector_of(text: str) -> np.ndarray:
    """A vector of small whole numbers that belongs to a text, so that many cosines tie."""
    return np.random.default_rng(list(text.encode())).integers(-1, 3, size=3).astype(np.float32)


def embed(texts: list[str], **_: bool) -> np.ndarray:
    return np.stack([vector_of(text) for text in texts])


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    """A cosine by its definition, rounded to steps of 2 to the power of -24."""
    lengths = math.sqrt(one @ one) * math.sqrt(other @ other)
    return round(float(one @ other) / lengths * 2**24) / 2**24 if lengths else 0.0


Judged = tuple[Path, dict[str, dict[str, int]]]


@pytest.fixture(params=range(3))
def judged(request: pytest.FixtureRequest, folder: Folder) -> Judged:
    """A folder in BEIR's layout with random scores from -1 to 3, and those of the test."""
    draw = np.random.default_rng(request.param)
    lines = [json.dumps({"_id": each, "title": "", "text": f"text {each}"}) for each in NAMES]
    asked = [json.dumps({"_id": f"q{n}", "text": f"question {n}"}) for n in range(12)]
    table = {
        f"q{n}": {str(name): int(draw.integers(-1, 4)) for name in draw.choice(NAMES, 9, False)}
        for n in range(9)
    }
    for scores in table.values():
        scores[next(iter(scores))] = 1  # a query without relevant documents is tested apart
    rows = [f"{q}\t{d}\t{score}" for q, scores in table.items() for d, score in scores.items()]
    return folder(
        queries_csv=None, documents_csv=None, relevant_csv=None,
        queries_jsonl="\n".join(asked), corpus_jsonl="\n".join(lines),
        qrels__test_tsv="\n".join(["query-id\tcorpus-id\tscore", *rows]),
        qrels__dev_tsv=f"query-id\tcorpus-id\tscore\nq10\t{NAMES[0]}\t1\n",
    ), table  # fmt: skip


def test_figures_are_those_of_pytrec_eval(judged: Judged) -> None:
    path, table = judged
    documents = {name: vector_of(f"text {name}") for name in NAMES}
    run = {
        f"q{n}": {name: cosine(asked, document) for name, document in documents.items()}
        for n, asked in enumerate(vector_of(f"question {n}") for n in range(9))
    }
    wanted = {"ndcg_cut.10", "recip_rank", "recall.1,5,10,100"}
    theirs = pytrec_eval.RelevanceEvaluator(table, wanted).evaluate(run)
    measures = ["ndcg_cut_10", "recip_rank", *(f"recall_{k}" for k in (1, 5, 10, 100))]
    own_suite = suite(str(path))
    ours = ranked(own_suite.load("faq"), embed(own_suite.texts("faq")))
    wanted_values = np.array([[theirs[query][name] for name in measures] for query in table])
    assert ours == pytest.approx(wanted_values, abs=1e-12)
    scores = own_suite.score_test(embed).metrics
    assert list(scores) == ["ndcg@10", "mrr", "recall@1", "recall@5", "recall@10", "recall@100"]
    assert list(scores.values()) == pytest.approx(list(100 * ours.mean(axis=0)))
    assert 0 < scores["recall@10"] < scores["recall@100"] < 100
    assert max(len(set(scores.values())) for scores in run.values()) < 60, "cosines must tie"


def test_figures_by_a_plain_loop(judged: Judged) -> None:
    path, table = judged
    sums = [0.0, 0.0, 0.0]
    for query, gains in table.items():
        asked = vector_of(f"question {query[1:]}")
        order = sorted(
            sorted(NAMES, reverse=True), key=lambda name: -cosine(asked, vector_of(f"text {name}"))
        )
        positive = {name: gain for name, gain in gains.items() if gain > 0}
        dcg = sum(positive.get(name, 0) / math.log2(at + 2) for at, name in enumerate(order[:10]))
        best = sorted(positive.values(), reverse=True)[:10]
        sums[0] += dcg / sum(gain / math.log2(at + 2) for at, gain in enumerate(best))
        sums[1] += 1 / (1 + min(map(order.index, positive)))
        sums[2] += len(positive.keys() & set(order[:5])) / len(positive)
    scores = suite(str(path)).score_test(embed).metrics
    for name, total in zip(("ndcg@10", "mrr", "recall@5"), sums, strict=True):
        assert scores[name] == pytest.approx(100 * total / len(table))


def test_the_interval_is_a_bootstrap_over_queries(judged: Judged) -> None:
    """Against scipy's, which draws other resamples."""
    found = suite(str(judged[0]))
    values = ranked(found.load("faq"), embed(found.texts("faq")))
    scores = found.score_test(embed)
    assert scores.uncertainty.keys() == scores.metrics.keys()
    for at, metric in enumerate(scores.metrics):
        drawn = scipy.stats.bootstrap(
            (100 * values[:, at],), np.mean, n_resamples=4000, method="percentile", rng=1
        )
        spread = scores.uncertainty[metric]
        assert spread.standard_error == pytest.approx(drawn.standard_error, rel=0.08, abs=1e-9)
        ends = (spread.low, spread.high)
        assert ends == pytest.approx(tuple(drawn.confidence_interval), abs=2.5), metric


def test_the_figures_of_each_query_are_kept(judged: Judged, tmp_path: Path) -> None:
    """Whatever the order of the queries, in an order of their own, and the same from the file."""
    path, table = judged
    own_suite = suite(str(path))
    kept = own_suite.score_test(embed).pairs
    values = ranked(own_suite.load("faq"), embed(own_suite.texts("faq")))
    assert sorted(kept["ndcg@10"].figures.tolist()) == sorted(values[:, 0].tolist())
    numbers = kept["mrr"].numbers
    assert len(set(numbers.tolist())) == len(table)
    assert (np.diff(numbers) > 0).all()
    keep_pairs(kept, tmp_path / "kept.parquet")
    for metric, pair in kept_pairs(tmp_path / "kept.parquet").items():
        assert score_of(pair) == pytest.approx(own_suite.score_test(embed).metrics[metric])
        assert np.array_equal(pair[0], kept[metric].figures)
        assert np.array_equal(pair[1], kept[metric].numbers)
    lines = (path / "qrels/test.tsv").read_text().splitlines()
    (path / "qrels/test.tsv").write_text("\n".join([lines[0], *reversed(lines[1:])]))
    again = suite(str(path)).score_test(embed)
    assert np.array_equal(again.pairs["mrr"].figures, kept["mrr"].figures)
    assert again.uncertainty["mrr"] == own_suite.score_test(embed).uncertainty["mrr"]
    (path / "qrels/test.tsv").write_text("\n".join([lines[0], *lines[2:]]))
    other = suite(str(path)).score_test(embed).pairs["mrr"].numbers
    assert len(set(numbers.tolist()) - set(other.tolist())) == 1, "one query was judged otherwise"


def test_systems_are_compared_in_the_same_resamples_of_queries() -> None:
    """Against a plain loop, and against the paired bootstrap of scipy."""
    draw = np.random.default_rng(5)
    hard = draw.random(40)
    one, two = hard * 0.9, np.clip(hard + 0.02 * draw.standard_normal(40), 0, 1)
    models = [{"ndcg@10": Queries(each, np.arange(40))} for each in (one, two)]
    drawn = resampled_scores(SuiteCard("faq"), models)["ndcg@10"]
    rows = np.random.default_rng(0).integers(0, 40, (1000, 40))
    for at in (0, 1, 999):
        for system, values in enumerate((one, two)):
            mean = 100 * math.fsum(float(values[row]) for row in rows[at]) / 40
            assert drawn[system, at] == pytest.approx(mean)
    difference = scipy.stats.bootstrap(
        (one, two), lambda a, b, axis: 100 * (a - b).mean(axis=axis), paired=True,
        n_resamples=4000, method="percentile", rng=2,
    )  # fmt: skip
    ours = over_pairs(*(
        Scored((100 * float(each.mean()),), ((0, 0),), False, drawn[[at]], "queries")
        for at, each in enumerate((one, two))
    ))  # fmt: skip
    assert (ours.low, ours.high) == pytest.approx(tuple(difference.confidence_interval), abs=0.3)
    assert ours.p_value < 0.01
    assert ours.basis == "bootstrap of the test queries"
    other = [models[0], {"ndcg@10": Queries(two, np.arange(1, 41))}]
    assert resampled_scores(SuiteCard("faq"), other) == {"ndcg@10": None}, "other queries"


BLOCKS = 2 * DOCUMENTS_AT_ONCE + 5


@pytest.mark.parametrize(
    ("asked", "documents", "count"),
    [
        *((5, 60, count) for count in (1, 7, 60, 99)),
        (QUERIES_AT_ONCE + 2, DOCUMENTS_AT_ONCE + 9, 7),
        *((2, BLOCKS, count) for count in (7, DOCUMENTS_AT_ONCE + 3, BLOCKS, 99_999)),
    ],
)
def test_the_nearest_rows_by_sorting(asked: int, documents: int, count: int) -> None:
    """In a block, and in several, of which the last one is shorter; most cosines tie."""
    draw = np.random.default_rng(count)
    queries, vectors = draw.integers(-2, 3, (asked, 3)), draw.integers(-2, 3, (documents, 3))
    different, row = np.unique(vectors, axis=0, return_inverse=True)
    rows, cosines = nearest(queries, vectors, count)
    assert rows.shape == cosines.shape == (asked, min(count, documents))
    for at in {*range(min(asked, 5)), asked - 1}:
        exact = np.array([cosine(queries[at], vector) for vector in different])
        exact = exact[row.ravel()]  # NumPy 2.0 gives it two dimensions
        order = np.argsort(-exact, kind="stable")[:count]
        assert np.array_equal(rows[at], order)
        assert np.array_equal(cosines[at], exact[order])


@pytest.mark.parametrize(("value", "message"), [(np.nan, "not finite"), (2.0, "constant")])
def test_vectors_that_cannot_be_searched(value: float, message: str) -> None:
    with pytest.raises(TrialFailure, match=message):
        nearest(np.ones((2, 3)), np.full((4, 3), value), 2)


def test_three_files_with_a_split_test_and_select(folder: Folder) -> None:
    own_suite = suite(str(folder()))
    assert (own_suite.name, own_suite.dev, own_suite.tests) == ("faq", "faq-dev", ("faq",))
    assert own_suite.load("faq").texts == ["one", "drei", "zwei", "eins"]
    assert own_suite.load("faq").gains == [{2: 2, 1: 1}]
    assert own_suite.load("faq-dev").gains == [{1: 1}]
    assert (own_suite.sentences_dev, own_suite.sentences_test) == (4, 4)
    assert own_suite.card.protocol == (
        "3 documents; queries of the test: 1; queries without a relevant document in test or dev, "
        "left out: 1."
    )
    assert list(card("faq", own_suite.card.dumped()).headings) == list(own_suite.card.headings)
    assert own_suite.score_dev(embed) == own_suite.measure("faq-dev", embed).metrics["faq-dev"]
    for metric in ("faq", "ndcg@10", "mrr"):
        with pytest.raises(UserError, match="is a test score, and test scores never"):
            choosing(own_suite, metric)


def test_labels_of_the_test_do_not_touch_dev(folder: Folder) -> None:
    before = suite(str(folder())).score_dev(embed)
    other = suite(str(folder(relevant_csv=RELEVANT.replace("q1,a,2", "q1,c,3"))))
    assert other.score_dev(embed) == before
    changed = suite(str(folder(relevant_csv=RELEVANT.replace("q2,b,1", "q2,c,1"))))
    assert changed.score_dev(embed) != before


def test_without_dev_it_selects_nothing(folder: Folder) -> None:
    own_suite = suite(str(folder(relevant_csv="query,document\nq1,a\nq2,b\n")))
    assert [list(gains.values()) for gains in own_suite.load("faq").gains] == [[1], [1]]
    with pytest.raises(UserError, match='suite "faq" has no dev score'):
        _ = own_suite.dev


def test_without_ids_the_number_of_an_item_is_its_id(folder: Folder) -> None:
    own_suite = suite(str(folder(
        queries_csv=None, documents_csv=None, queries_txt="one\ntwo\n", documents_txt="x\n\nz\n",
        relevant_csv=None, relevant_tsv="query\tdocument\n2\t3\n1\t2\n",
    )))  # fmt: skip
    judged = own_suite.load("faq")
    assert (judged.queries, judged.documents) == (["two", "one"], ["z", " ", "x"])
    assert judged.gains == [{0: 1}, {1: 1}]


def test_other_content_is_another_suite(folder: Folder) -> None:
    path = str(folder())
    first = suite(path)
    assert suite(path) is first, "its data would be read anew for every score"
    changed = [{"queries_csv": QUERIES + "q4,four\n"}, {"relevant_csv": RELEVANT + "q3,c,1,test"}]
    digests = {first.digest(), *(suite(str(folder(**files))).digest() for files in changed)}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"queries_csv": None}, "there is no file queries; files whose names end in .jsonl"),
        ({"documents_csv": None}, "there is no file documents or corpus; files"),
        ({"relevant_csv": None}, "there is no file relevant or qrels/test; files"),
        ({"corpus_jsonl": "{}"}, "corpus.jsonl and FAQ/documents.csv are one part of a suite"),
        ({"queries_csv": "id,text\nq1,x\nq1,y\n"}, 'queries.csv, line 3: the id "q1" stands'),
        ({"queries_csv": "id,text\n,x\n"}, 'queries.csv, line 2: column "id" holds no id'),
        ({"queries_csv": "id,name\nq1,x\n"}, 'queries.csv, line 2: column "text" is missing'),
        ({"queries_csv": "id,text\n"}, "queries.csv holds no text"),
        ({"relevant_csv": PAIRS + "q1,a\nq1,a\n"}, 'line 3: query "q1" and document "a"'),
        ({"relevant_csv": PAIRS + "q9,a\n"}, 'line 2: FAQ/queries.csv has no query'),
        ({"relevant_csv": PAIRS + "q1,z\n"}, 'line 2: FAQ/documents.csv has no document'),
        ({"relevant_csv": "query,doc\nq1,a\n"}, "line 2: there is no column document or corpus-id"),
        ({"relevant_csv": SCORED + "q1,a,0.5\n"}, "line 2: the score '0.5' is no whole"),
        ({"relevant_csv": SCORED + "q1,a,inf\n"}, "line 2: the score 'inf' is no whole"),
        ({"relevant_csv": SCORED + "q1,a,x\n"}, "line 2: the score 'x' is no whole"),
        ({"relevant_csv": SCORED + "q1,a,0\n"}, "relevant.csv says of no document"),
        ({"relevant_csv": RELEVANT + "q1,c,1,dev\n"}, 'line 5: query "q1" is of dev and of test'),
        ({"qrels__dev_tsv": "query-id\tcorpus-id\n"}, "FAQ/qrels/dev.tsv says of no document"),
    ],
)  # fmt: skip
def test_what_is_no_suite_is_refused(
    folder: Folder, files: dict[str, str | None], sentence: str
) -> None:
    path = folder(**files)
    if "qrels__dev_tsv" in files:
        (path / "relevant.csv").write_text(PAIRS + "q1,a\n")
    with pytest.raises(UserError) as error:
        suite(str(path))
    assert sentence.replace("FAQ", str(path)) in str(error.value)


def test_a_shipped_name_and_a_missing_folder_are_refused(folder: Folder) -> None:
    path = folder()
    with pytest.raises(UserError, match="the name of a shipped one; rename the folder"):
        suite(str(path.rename(path.with_name("sts"))))
    with pytest.raises(UserError, match="or of a folder with queries is valid"):
        check_name(str(path))


def test_a_space_cannot_select_by_a_folder_without_dev(folder: Folder, tmp_path: Path) -> None:
    path, space = folder(relevant_csv="query,document\nq1,a\n"), tmp_path / "space.yaml"
    space.write_text(
        f"suite: {path}\nselect: {{metric: dev}}\nencoders: [x]\nmethods: {{pooling: }}"
    )
    with pytest.raises(UserError, match=r'space\.yaml, line 1.*suite "faq" has no dev score'):
        load_space(space)


def test_the_files_travel_and_are_in_the_key(folder: Folder) -> None:
    def trial(path: Path) -> Trial:
        own = {"encoder": "tiny-bert", "sentences": "graded-sentences", "suite": str(path)}
        return Trial("simcse", own, seed=0)

    before = key(trial(folder(documents_csv=DOCUMENTS.replace("drei", "trois"))))
    path = folder()
    sent = {file.path for file in file_list(trial(path)).files}
    assert {str(path / f"{name}.csv") for name in ("queries", "documents", "relevant")} <= sent
    assert key(trial(path)) != before
