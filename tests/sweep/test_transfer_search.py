"""A dev score of another suite chooses, as in DiffCSE's second search by transfer dev."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.data.senteval import Labelled, Splits
from harness.evaluation.suites import suite
from harness.evaluation.transfer import AllTasks
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.sweeps.spaces.overrides import Overrides, shipped_spaces
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.trials.store import Store
from tests.sweeping import write_few_pairs

TRANSFER = "transfer-senteval-dev"
SPACE = """\
suite: FEW
select: {metric: graded-dev}
final: {seeds: [0]}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 4, evaluation_interval: 2}
methods: {simcse: {grid: {learning_rate: [1.0e-4, 1.0e-3, 5.0e-3]}}}
"""


@pytest.mark.slow
def test_the_shipped_space_has_the_papers_200_configurations() -> None:
    """The grid of appendix A on both encoders of Table 13, the values of that table among it."""
    found = searches(*load_space(shipped_spaces()["transfer"]), Overrides())
    assert [len(search.configurations(0, [])) for search in found] == [200, 200]
    for search in found:
        assert (search.metric, search.config.suite) == (TRANSFER, "sts")
        rate = {"bert-base-uncased": 2e-6, "roberta-base": 3e-6}[search.config.encoder]
        chosen = {"learning_rate": rate, "masking_ratio": 0.15, "replaced_token_weight": 0.05}
        tried = search.configurations(0, [])
        assert any(chosen.items() <= {**values}.items() for values in tried)


def test_the_score_that_selects_is_in_the_configuration_where_it_is_of_another_suite() -> None:
    plugin = registry.load("pooling")
    plain, other = resolve(plugin, {}), resolve(plugin, {"selected_by": TRANSFER})
    assert other.deciding() == {**plain.deciding(), "selected_by": TRANSFER}
    assert "selected_by" not in plain.deciding()


def test_test_labels_do_not_touch_the_dev_score() -> None:
    draw = np.random.default_rng(0)

    def rows(count: int) -> Labelled:
        labels = np.arange(count) % 2
        return Labelled([str(number) for number in range(count)], labels)

    def dev(test: Labelled) -> float:
        everything = object.__new__(AllTasks)
        everything.tasks = [Splits(train=rows(60), test=test)]
        return suite("transfer-senteval").score(TRANSFER, everything, vectors).metrics[TRANSFER]

    vectors = draw.normal(size=(80, 4)).astype(np.float32)
    flipped = replace(rows(20), labels=1 - rows(20).labels)
    assert dev(rows(20)) == dev(flipped)


@pytest.mark.slow
def test_a_dev_score_of_another_suite_chooses(tmp_path: Path, serially: Callable[..., Any]) -> None:
    """And that of the trials' own suite chooses their checkpoints."""
    space, store = tmp_path / "space.yaml", tmp_path / "store"
    few = write_few_pairs(tmp_path)
    space.write_text(SPACE.replace("FEW", str(few)), encoding="utf-8")
    words = [space, "--store", store, "--configurations", 2, "--set", "precision=fp32"]
    answer = serially(*words)
    assert answer.code == 0, answer.out + answer.err
    assert "selected on dev (graded-dev), test never selects" in answer.out
    stored = list(Store(store).read().records())
    tried = [record for record in stored if record.role == "search"]
    (final,) = [record for record in stored if record.role == "final"]
    assert len(tried) == 2
    for record in (*tried, final):
        assert (record.selected_by, record.dev_before) == ("graded-dev", None)
        assert record.dev.keys() == {"few-dev", "graded-dev"}
        assert record.configuration["selected_by"] == "graded-dev"
        points = [point["value"] for point in record.history if point["metric"] == "dev"]
        assert len(points) == 2
        assert record.dev["few-dev"] == max(points), "the suite's dev chose the checkpoint"
    assert all(not record.test for record in tried)
    assert final.test.keys() == {"few"}, "the tests are those of the suite"
    best = max(tried, key=lambda record: record.dev["graded-dev"])
    assert len({record.dev["graded-dev"] for record in tried}) > 1
    assert dict(final.configuration) == dict(best.configuration)
    assert "\n0 trials to run" in serially(*words, "--dry-run").out
