"""Models and data of the Hub with @REVISION through the verbs, and their commits in the record."""

from pathlib import Path

import pytest

from harness.data.senteval import ARCHIVE, SIMCSE
from harness.evaluation.suites import suite
from harness.export.card import model_card
from harness.export.exportable import exportable
from harness.trials.publishing import data_frame
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import Trial, revisions
from tests.cli.conftest import Harness, check_sentence, sets
from tests.downloads import FIRST, SECOND, THIRD, downloaded, downloaded_model, downloaded_texts
from tests.kits import hub_client
from tests.sweeping import write_few_pairs

DATA_OF_MTEB = {
    "STS12": "mteb/sts12-sts", "BIOSSES": "mteb/biosses-sts",
    "STS22?dev=train": "mteb/sts22-crosslingual-sts",
}  # fmt: skip
TRAINED = ["run", "simcse", *sets(suite="graded", max_steps=1, batch_size=4, precision="fp32")]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, beside the downloads of two revisions of a model and of a data set."""
    hub = tmp_path / "hub"
    hub_client(monkeypatch, HF_HUB_CACHE=str(hub))
    downloaded_model(hub, "some/tiny", FIRST, "main", scale=1)
    downloaded_model(hub, "some/tiny", SECOND, "v2", "refs/pr/1", scale=1.5)
    downloaded_texts(hub, "some/texts", {(FIRST, "main"): "one", (THIRD, "v3"): "two"})
    return Store(tmp_path / "store")


def ran(harness: Harness, store: Store, *arguments: str) -> Record:
    """The record that a verb has added."""
    before = {record.key for record in store.matching("")}
    answer = harness(*arguments, "--store", store.folder)
    assert answer.code == 0, answer.err
    [added] = [record for record in store.matching("") if record.key not in before]
    return added


@pytest.mark.slow
def test_a_trial_records_its_commits(harness: Harness, store: Store) -> None:
    """They are shown, exported, and columns of the flat table; what is named again runs again."""
    texts = "some/texts@v3/default:train"
    named = ["--encoder", "some/tiny@refs/pr/1", "--set", f"sentences={texts}"]
    trial = ran(harness, store, *TRAINED, *named)
    commits = {"datasets/some/texts": THIRD, "models/some/tiny": SECOND}
    assert (trial.encoder, trial.revisions) == ("some/tiny@refs/pr/1", commits)
    shown = harness("show", trial.key[:10], "--store", store.folder).out
    assert f"revisions:\n  datasets/some/texts: {THIRD}\n  models/some/tiny: {SECOND}\n" in shown
    assert "--encoder some/tiny@refs/pr/1" in shown
    again = harness(*TRAINED, *named, "--store", store.folder)
    assert "finished" in again.out
    assert len(store.matching("")) == 1
    card = model_card(exportable(trial.key, store)(), None, plain=True)
    assert "base_model: some/tiny\n" in card
    assert f"`datasets/some/texts` {THIRD}, `models/some/tiny` {SECOND}." in card
    assert f"`{texts}` (contrastive)" in card
    assert "Encoder: `some/tiny@refs/pr/1`" in card
    frame = data_frame(store.folder)
    assert frame["revisions.models/some/tiny"].tolist() == [SECOND]


@pytest.mark.slow
def test_a_model_is_measured_at_a_revision(harness: Harness, store: Store, tmp_path: Path) -> None:
    """Without one it is that of the default branch; the embedded model has no commit."""
    words = ["--suite", str(write_few_pairs(tmp_path))]
    records = {
        name: ran(harness, store, "eval", name, *words)
        for name in ("some/tiny", "some/tiny@v2", f"some/tiny@{FIRST}", "tiny-bert")
    }
    commits = [record.revisions.get("models/some/tiny") for record in records.values()]
    assert commits == [FIRST, SECOND, FIRST, None]
    assert records["tiny-bert"].revisions == {}
    assert len({record.key for record in records.values()}) == 4
    scores = [record.test["few"] for record in records.values()]
    assert scores[0] == scores[2] == scores[3] != scores[1]
    answer = harness("eval", "some/tiny@v3", *words, "--store", store.folder)
    check_sentence(answer, 'model "some/tiny@v3" was not found', 'mean "some/tiny@v2"?')
    assert answer.err.count("\n") == 1


@pytest.mark.usefixtures("store")
def test_a_suite_of_the_hub_has_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation reads what its trial reads, and the data of its own suite."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    (downloaded(tmp_path / "hub", f"datasets/{SIMCSE}", THIRD, "main") / ARCHIVE).touch()
    trial = Trial("pooling", {"encoder": "some/tiny", "suite": "graded"}, 0)
    commits = {"models/some/tiny": FIRST}
    assert revisions(trial, suite("graded")) == commits
    assert revisions(trial, suite("sts")) == {f"datasets/{SIMCSE}": THIRD, **commits}


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_data_that_mteb_reads_have_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each data set that was downloaded has a commit; those of a mirror have none."""
    trial = Trial("pooling", {"encoder": "some/tiny", "suite": "graded"}, 0)
    model = {"models/some/tiny": FIRST}
    for task, repository in DATA_OF_MTEB.items():
        measured = suite(f"mteb:{task}")
        commit = measured.card.origins[task.partition("?")[0]].revision
        monkeypatch.delenv("HARNESS_HUB", raising=False)
        assert revisions(trial, measured) == model
        downloaded(tmp_path / "hub", f"datasets/{repository}", commit)
        assert revisions(trial, measured) == {f"datasets/{repository}": commit, **model}
        (tmp_path / "mirror" / "datasets" / repository).mkdir(parents=True)
        monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "mirror"))
        assert revisions(trial, measured) == model
