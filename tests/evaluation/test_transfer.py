"""Transfer tasks from their texts to accuracies."""

import numpy as np
import pytest

from harness.data.senteval import DATASETS, Labelled, Splits
from harness.errors import TrialFailure
from harness.evaluation.senteval_classifier import task_features, transfer
from harness.evaluation.transfer import dev_average
from tests.evaluation.conftest import WordVectors


def small_task(task: str) -> Splits:
    """A task of the shape of the real one: the first of four words in a text says the class."""
    classes = 6 if task == "trec" else 2
    sizes = {"sst2": {"train": 120, "dev": 40, "test": 40}, "mr": {"all": 120}}.get(
        task, {"train": 120, "test": 40}
    )
    generator = np.random.default_rng(len(task))

    def split(rows: int) -> Labelled:
        labels = np.arange(rows) % classes
        texts = [
            f"class{label} " + " ".join(f"w{word}" for word in generator.integers(9, size=3))
            for label in labels
        ]
        if task != "mrpc":
            return Labelled(texts, labels)
        pairs = zip(texts, labels, strict=True)
        return Labelled(texts, labels, [text if label else f"other{text}" for text, label in pairs])

    return Splits({name: split(rows) for name, rows in sizes.items()})


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small task of each shape, in place of the seven real ones."""
    for task in ("mr", "sst2", "trec", "mrpc"):
        monkeypatch.setitem(DATASETS, task, lambda task=task: small_task(task))
    for task in ("cr", "subj", "mpqa"):
        monkeypatch.delitem(DATASETS, task)


@pytest.mark.slow
@pytest.mark.usefixtures("small_tasks")
def test_a_task_is_scored_as_its_splits_say() -> None:
    for task, penalties in {"mr": 10, "sst2": 1, "trec": 1, "mrpc": 1}.items():
        embed = WordVectors(256)
        data = DATASETS[task]()
        result = transfer(data, embed(data.texts))
        expected = [text for rows in data.values() for text in (*rows.texts, *(rows.second or []))]
        assert data.texts == expected
        assert len(result.penalties) == penalties
        assert result.dev > 90
        assert result.test > 90
        assert (result.f1 is not None) == (task in ("sst2", "mrpc"))


def test_features_of_a_pair_are_difference_and_product() -> None:
    data = Splits(train=Labelled(["a", "b"], np.array([0, 1]), ["c", "a"]))
    embed = WordVectors(3)
    features = task_features(data, embed(data.texts))["train"]
    one, two, three = (embed.vector(name) for name in "abc")
    expected = [
        np.concatenate([abs(one - three), one * three]),
        np.concatenate([abs(two - one), two * one]),
    ]
    assert features == pytest.approx(np.stack(expected), abs=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("small_tasks")
def test_fast_mode_has_five_folds_and_its_average_is_that_of_the_dev_scores() -> None:
    embed = WordVectors(4)
    tasks = {task: read() for task, read in DATASETS.items()}
    fast = {task: transfer(data, embed(data.texts), fast=True) for task, data in tasks.items()}
    assert len(fast["mr"].penalties) == 5
    everything = embed([text for data in tasks.values() for text in data.texts])
    expected = np.mean([score.dev for score in fast.values()])
    assert dev_average(list(tasks.values()), everything) == pytest.approx(expected, abs=1e-9)


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("task", ["mr", "sst2", "trec", "mrpc"])
def test_useless_embeddings_have_no_score(task: str) -> None:
    data = DATASETS[task]()
    rows = len(data.texts)
    random, one_infinite = np.random.default_rng(0).normal(size=(rows, 4)), np.ones((rows, 4))
    one_infinite[7] = np.inf
    for vectors, message in (
        (np.full((rows, 4), np.nan), "not finite"),
        (one_infinite, "not finite"),
        (np.tile(np.float32([0.1, -2, 3]), (rows, 1)), "constant"),
        (np.zeros((rows, 4)), "constant"),
        (random[1:], r"have the shape \(\d+, 4\)"),
        (random[:, 0], r"have the shape \(\d+,\)"),
    ):
        with pytest.raises(TrialFailure, match=message):
            transfer(data, vectors)
