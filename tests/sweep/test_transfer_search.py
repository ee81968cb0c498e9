"""DiffCSE's second search: transfer dev chooses the configuration, STS-B dev the checkpoint."""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from harness.data.senteval import ARCHIVE, SIMCSE, Labelled, Splits
from harness.evaluation import suites
from harness.evaluation.suites import suite
from harness.evaluation.transfer import TASKS, AllTasks
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.sweeps.spaces.overrides import Overrides, shipped_spaces
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.trials.store import Store
from tests.kits import forget

TRANSFER, STSB = "transfer-senteval-dev", "stsb-dev"


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


@pytest.fixture
def small_hub(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The first lines of the real data."""
    folder = tmp_path / "hub" / "datasets" / SIMCSE
    folder.mkdir(parents=True)
    wiki = "wiki1m_for_simcse.txt"
    with (hub / "datasets" / SIMCSE / wiki).open("rb") as lines:
        (folder / wiki).write_bytes(b"".join(next(lines) for _ in range(200)))
    with (
        tarfile.open(hub / "datasets" / SIMCSE / ARCHIVE) as whole,
        tarfile.open(folder / ARCHIVE, "w") as thin,
    ):
        for entry in whole:
            if (file := whole.extractfile(entry)) is not None:
                # Six classes of questions need more rows than two classes of reviews.
                kept = file.readlines()[: 300 if "TREC" in entry.name else 60]
                content = b"".join(kept)
                header = tarfile.TarInfo(entry.name)
                header.size = len(content)
                thin.addfile(header, io.BytesIO(content))
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "hub"))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))

    def read_anew() -> None:  # data are read once per process
        forget(suites)
        TASKS["mr"].func.cache_clear()  # type: ignore[attr-defined]

    read_anew()
    yield tmp_path / "hub"
    read_anew()


# SentEval's classifier is trained for seven tasks, 5 x 5 folds and 4 penalties, three times.
@pytest.mark.slow
@pytest.mark.usefixtures("small_hub")
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_the_space_in_miniature_to_its_end(tmp_path: Path) -> None:
    from harness.cli.verbs import app

    def sweep() -> Any:
        words = ["sweep", "diffcse", "transfer", "--local", "--encoder", "tiny-bert"]
        words += ["--configurations", "2", "--seeds", "0", "--store", str(tmp_path / "store")]
        values = {
            "max_steps": 4, "evaluation_interval": 2, "precision": "fp32", "generator": "tiny-bert",
        }  # fmt: skip
        words += [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        return CliRunner().invoke(app, words)

    answer = sweep()
    assert answer.exit_code == 0, answer.output
    assert "selected on dev (transfer dev), test never selects" in answer.output
    stored = list(Store(tmp_path / "store").read().records())
    tried = [record for record in stored if record.role == "search"]
    (final,) = [record for record in stored if record.role == "final"]
    assert len(tried) == 2
    for record in (*tried, final):
        assert (record.selected_by, record.dev_before) == (TRANSFER, None)
        assert record.dev.keys() == {STSB, TRANSFER}
        assert record.configuration["selected_by"] == TRANSFER
        points = [point["value"] for point in record.history if point["metric"] == "dev"]
        assert len(points) == 2
        assert record.dev[STSB] == max(points), "STS-B dev chose the checkpoint"
    assert all(not record.test for record in tried)
    assert "avg" in final.test, "the tests are those of the suite"
    assert not {"mr", "transfer-avg"} & final.test.keys()
    best = max(tried, key=lambda record: record.dev[TRANSFER])
    assert len({record.dev[TRANSFER] for record in tried}) > 1
    assert dict(final.configuration) == dict(best.configuration)
    again = sweep()
    assert again.exit_code == 0, again.output
    assert len(list(Store(tmp_path / "store").read().records())) == 3, "nothing ran twice"
