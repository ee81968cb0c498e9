"""mteb from `harness eval` and `harness run` to the table and to mteb's own result files."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.data.sts_pairs import LOADERS
from harness.trials.store import Store
from tests.cli.conftest import Harness, Shown, check_sentence, sets
from tests.mteb_tasks import TOPICS, write_tasks

pytestmark = pytest.mark.slow  # mteb takes seconds to import


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two tasks, one of them with graded pairs."""
    pairs = {}
    for split, name in (("test", "graded"), ("validation", "graded-dev")):
        data = LOADERS[name]()
        pairs[split] = list(zip(data.first, data.second, data.gold.tolist(), strict=True))[:60]
    return write_tasks(tmp_path_factory.mktemp("tasks"), pairs, TOPICS)


def test_scores_reach_the_table_and_mteb_reads_its_files(
    harness: Any, shown: Shown, tasks: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    suites = f"mteb:{tasks},mteb:STS12"  # the data of STS12 are not here
    answer = harness("eval", "tiny-bert", "--suite", suites, "--store", store)
    assert answer.code == 1, answer.err
    assert "missing in mteb: STS12: the data of task STS12 (mteb/sts12-sts) were not" in answer.out
    records = {next(iter(each.test), ""): each for each in Store(store).read().records()}
    assert records["Pairs"].suite == records["Topics"].suite == "mine"
    again = harness("eval", "tiny-bert", "--suite", f"mteb:{tasks}", "--store", store)
    assert again.out.count("mine (in the store)") == 2
    table = harness("table", "--store", store).out
    assert "Pairs  Topics  Mean (Task)" in table
    assert "Main scores of MTEB x100" in table

    for _ in range(2):  # the same files are written again
        written = shown("export", "tiny-bert", tmp_path / "out", "--mteb", "--store", store)
        assert "results of 2 tasks" in written
    [read] = results(tmp_path / "out")
    assert read.model_name == "harness/pooling-tiny-bert"
    assert read.model_revision == records["Pairs"].evaluates
    for result in read.task_results:
        score = records[result.task_name].test[result.task_name]
        assert 100 * result.get_score() == pytest.approx(score, abs=1e-4)
        assert result.dataset_revision == "1"
        assert result.languages == ["eng"]
    folder = tmp_path / "out" / "results" / "harness__pooling-tiny-bert" / read.model_revision
    topics = json.loads((folder / "Topics.json").read_text())
    experiments = topics["scores"]["test"][0]["scores_per_experiment"]
    assert len(experiments) == 2
    assert {"accuracy", "f1"} <= set(experiments[0])


def test_a_trial_selects_on_a_split(
    harness: Harness, shown: Shown, tasks: Path, tmp_path: Path
) -> None:
    """A model without scores of mteb is not exported as its results."""
    store, out = tmp_path / "store", tmp_path / "out"
    export = ("--mteb", "--store", store)
    answer = harness("export", "tiny-bert", out, *export)
    check_sentence(answer, "harness eval tiny-bert --suite mteb:TASK")
    assert not out.exists()
    values = sets(sentences="graded-sentences", max_steps=2, batch_size=8, precision="fp32")
    single = tasks.with_name("single.py")
    single.write_text(tasks.read_text().partition("\n\n\nclass Topics")[0] + "\n")
    command = ["run", "simcse", "--encoder", "tiny-bert", *values, "--store", store, "--set"]
    refused = harness(*command, f"suite=mteb:{single}")
    check_sentence(refused, 'suite "single" has no dev score')
    shown(*command, f"suite=mteb:{single}?dev=validation")
    [record] = Store(store).read().records()
    assert (record.selected_by, record.suite) == ("Pairs-dev", "single")
    assert set(record.test) == {"Pairs"}
    shown("export", record.key[:8], out, *export)
    [read] = results(out)
    assert read.model_name == "harness/simcse-tiny-bert"
    [result] = read.task_results
    assert 100 * result.get_score(splits=["test"]) == pytest.approx(record.test["Pairs"], abs=1e-4)


def results(folder: Path) -> list[Any]:
    """The results of models in a folder, as mteb reads them."""
    import mteb

    return list(mteb.ResultCache(folder).load_results(include_remote=False).model_results)
