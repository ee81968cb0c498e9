"""Suites of mteb: names, data, scores and digests."""

import json
import random
import sys
from pathlib import Path

import mteb
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from harness.data.sts_pairs import LOADERS, Pairs
from harness.errors import NotHere, UserError
from harness.evaluation import mteb_suites, suites
from harness.evaluation.embedder import Embedder
from harness.evaluation.mteb_names import check_named, written
from harness.evaluation.mteb_suites import MEAN
from harness.evaluation.sts import selecting
from harness.evaluation.suites import suite
from harness.trials.run import built
from harness.trials.trial import Trial
from tests.evaluation.conftest import embed, rank_correlation
from tests.kits import forget
from tests.mteb_tasks import TOPICS, write_tasks

pytestmark = pytest.mark.slow  # mteb takes seconds to import

PAIRS = {
    split: [(f"{split} one {number}", f"{split} two {number}", number % 5) for number in range(12)]
    for split in ("test", "validation")
}


def expected(split: str) -> float:
    """Spearman x100 of the cosines of a split, from its definition."""
    first, second, gold = zip(*PAIRS[split], strict=True)
    return rank_correlation(embed(first), embed(second), gold)


def test_own_tasks_are_measured_and_averaged(tmp_path: Path) -> None:
    path = write_tasks(tmp_path, PAIRS, TOPICS)
    own_suite = suite(f"mteb:{path}")
    assert (own_suite.name, own_suite.tests) == ("mine", ("Pairs", "Topics"))
    assert own_suite.card.dev is None
    assert [part.tests for part in own_suite.parts] == [("Pairs",), ("Topics",)]
    scores = own_suite.score_test(embed)
    assert scores.metrics["Pairs"] == pytest.approx(expected("test"), abs=1e-4)
    assert 0 <= scores.metrics["Topics"] <= 100
    mean = (scores.metrics["Pairs"] + scores.metrics["Topics"]) / 2
    assert scores.metrics[MEAN] == pytest.approx(mean, abs=0.01)
    details = scores.details
    assert 100 * details["Topics/test/default/accuracy"] == scores.metrics["Topics"]
    assert "Topics/test/default/scores_per_experiment/1/f1" in details
    assert own_suite.score_test(embed) == scores, "a task draws other numbers when it runs again"
    alone = own_suite.parts[0].score_test(embed)
    assert alone.metrics == {"Pairs": scores.metrics["Pairs"]}, "a part has no average"
    with pytest.raises(UserError, match='suite "mine" has no dev score'):
        _ = own_suite.dev


def test_a_split_selects(tmp_path: Path) -> None:
    name = f"mteb:{write_tasks(tmp_path, PAIRS)}?dev=validation"
    own_suite = suite(name)
    assert (own_suite.dev, own_suite.tests, own_suite.parts) == ("Pairs-dev", ("Pairs",), ())
    assert own_suite.score_dev(embed) == pytest.approx(expected("validation"), abs=1e-4)
    assert own_suite.score_test(embed).metrics == {
        "Pairs": pytest.approx(expected("test"), abs=1e-4)
    }


def test_random_numbers_go_on_as_if_nothing_was_measured(tmp_path: Path) -> None:
    path = write_tasks(tmp_path, PAIRS, TOPICS)
    torch.manual_seed(7), np.random.seed(7), random.seed(7)
    wanted = torch.rand(1).item(), np.random.rand(), random.random()
    torch.manual_seed(7), np.random.seed(7), random.seed(7)
    suite(f"mteb:{path}").score_test(embed)
    assert (torch.rand(1).item(), np.random.rand(), random.random()) == wanted


def test_other_data_and_other_code_are_another_suite(tmp_path: Path) -> None:
    path = write_tasks(tmp_path, PAIRS)
    digests = {suite(f"mteb:{path}").digest(), suite(f"mteb:{path}?dev=validation").digest()}
    assert suite(f"mteb:{path}") is suite(f"mteb:{path}"), "its data would be read for every score"
    write_tasks(tmp_path, {"test": PAIRS["test"][::-1]})
    path.write_text(path.read_text() + "\n# changed\n")
    assert len({*digests, suite(f"mteb:{path}").digest()}) == 3


@pytest.mark.parametrize("mirror", ["mirror", "a [1]* {x} #b: c?", "a::b%20c", "[a]/**/b"])
def test_a_task_of_mteb_reads_its_data_from_the_mirror(
    mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library `datasets` reads a path as a pattern, or as an address with parts."""
    tmp_path = tmp_path / mirror
    forget(mteb_suites, suites)
    folder = tmp_path / "datasets" / "mteb" / "stsbenchmark-sts"
    folder.mkdir(parents=True)
    rows = [{"sentence1": one, "sentence2": two, "score": gold} for one, two, gold in PAIRS["test"]]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    mteb_suite = suite("mteb:STSBenchmark")
    assert mteb_suite.files() == [folder / "test.jsonl"]
    assert len(mteb_suite.card.origins["STSBenchmark"].revision) == 40
    scores = mteb_suite.score_test(embed)
    assert scores.metrics == {"STSBenchmark": pytest.approx(expected("test"), abs=1e-4)}
    with pytest.raises(UserError, match=r'has no split "validaton"'):
        suite("mteb:STSBenchmark?dev=validaton").load("STSBenchmark-dev")


def test_data_that_are_not_here_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    mteb_suite = suite("mteb:Banking77Classification")
    assert mteb_suite.files() == []
    with pytest.raises(NotHere, match=r"the data of task Banking77Classification \(mteb/banking77"):
        mteb_suite.load("Banking77Classification")


@pytest.mark.parametrize("name", ["MTEB(eng, v2)", "MTEB-eng-v2", "mteb-eng"])
def test_a_benchmark_has_a_form_for_shells(name: str) -> None:
    found = suite(f"mteb:{name}")
    assert (found.name, found.card.average, len(found.parts)) == ("MTEB(eng, v2)", MEAN, 41)


def test_every_name_of_mteb_stands_in_its_source() -> None:
    """A name is refused by mteb's source, before mteb is imported."""
    tasks = mteb.get_tasks(exclude_superseded=False, exclude_beta=False)
    names = [task.metadata.name for task in tasks]
    for each in mteb.get_benchmarks():
        names += [each.name, written(each.name), *(each.aliases or ())]
    assert len(names) > 2000
    for name in names:
        check_named(f"mteb:{name}")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("STSBenchmrk", "", 'no benchmark "STSBenchmrk"; did you mean "STSBenchmark"?'),
        ("MTEB-eng-v3", "", 'did you mean "MTEB-eng-v2"?'),
        ("STSBenchmark?dv=x", "", "what can follow the question mark is dev=SPLIT"),
        ("STSBenchmark?dev=test", "",
         'is reported on its split "test", so this split cannot select'),
        ("none.py", "", "there is no such file: none.py"),
        ("mine.py", "import mteb", "has no task of mteb"),
        ("mine.py", "raise ValueError('no')", "fails to import: ValueError: no"),
        ("mine.py", "import mteb\na = mteb.get_task('STS12')\nb = mteb.get_task('STS12')",
         'called "STS12"'),
        ("mine.py", "import mteb\na = mteb.get_task('STS12')", "the data of task STS12"),
    ],
)  # fmt: skip
def test_what_is_no_suite_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if code:
        Path(name).write_text(code, encoding="utf-8")
    with pytest.raises(UserError) as error:
        suite(f"mteb:{name}")
    assert message in str(error.value)


def test_real_vectors_have_the_scores_of_mteb_and_of_our_own_suite(
    hub: Path, tmp_path: Path
) -> None:
    pairs = LOADERS["stsb"]()
    rows = list(zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True))[::7]
    own_suite = suite(f"mteb:{write_tasks(tmp_path, {'test': rows, 'validation': rows[:9]})}")
    name = "sentence-transformers/all-MiniLM-L6-v2"
    ours = Embedder(*built(Trial("sentence_transformer", {"encoder": name}, 0)))
    score = own_suite.score_test(ours).metrics["Pairs"]
    [task] = own_suite.load("Pairs")
    theirs = mteb.evaluate(
        SentenceTransformer(str(hub / "models" / name)), task, cache=None, co2_tracker=False
    )
    assert score == pytest.approx(100 * theirs.task_results[0].get_score(), abs=1e-4)
    first, second, gold = zip(*rows, strict=True)
    same = Pairs(list(first), list(second), np.asarray(gold))
    assert score == pytest.approx(selecting(same, ours(same.texts)), abs=1e-4)


def test_without_mteb_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(UserError, match=r"pip install 'harness-embeddings\[mteb\]'"):
        suite("mteb:BIOSSES")
