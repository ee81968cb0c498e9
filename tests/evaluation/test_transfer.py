"""Transfer tasks: SentEval's protocol against scikit-learn, fit by fit, and tasks from texts on."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from harness.data.senteval import DATASETS, Labelled, Splits
from harness.errors import TrialFailure
from harness.evaluation.transfer import nested_cross_validation, single_test, transfer
from harness.evaluation.transfer_tasks import FOLD_SEED, PENALTIES, dev_average, task_features

Make = Callable[..., Any]


@pytest.fixture
def validated(fitted: Make, stratified: Make) -> Callable[..., tuple[float, float]]:
    """validated(features, labels, folds): the best weight decay as SentEval chooses it, its score.

    The score is the mean accuracy x100 over the folds, with two decimals.
    """

    def choose(features: np.ndarray, labels: np.ndarray, folds: int) -> tuple[float, float]:
        scores = []
        for weight_decay in (1e-5, 1e-4, 1e-3, 1e-2):
            accuracies = []
            for rows, held_out in stratified(labels, folds):
                model = fitted(features[rows], labels[rows], weight_decay)
                accuracies.append(model.score(features[held_out], labels[held_out]))
            scores.append(round(100 * np.mean(accuracies), 2))
        return [1e-5, 1e-4, 1e-3, 1e-2][int(np.argmax(scores))], max(scores)

    return choose


# The protocol


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(("folds", "classes", "seed"), [(5, 2, 0), (10, 2, 1), (5, 3, 2)])
def test_nested_cross_validation_against_scikit_learn(
    folds: int,
    classes: int,
    seed: int,
    problem: Make,
    fitted: Make,
    stratified: Make,
    validated: Make,
) -> None:
    features, labels = problem(200, classes, seed)
    found = nested_cross_validation(features, labels, folds)
    dev, test, penalties = [], [], []
    for rows, held_out in stratified(labels, folds):
        weight_decay, score = validated(features[rows], labels[rows], folds)
        model = fitted(features[rows], labels[rows], weight_decay)
        dev.append(score)
        penalties.append(weight_decay)
        test.append(round(100 * model.score(features[held_out], labels[held_out]), 2))
    assert found.penalties == tuple(penalties)
    assert found.dev == pytest.approx(round(np.mean(dev), 2), abs=0.011)
    assert found.test == pytest.approx(round(np.mean(test), 2), abs=0.011)
    # The test means something only where the folds choose different penalties.
    assert len(set(penalties)) > 1


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("classes", [2, 4])
def test_cross_validation_and_one_test_against_scikit_learn(
    classes: int, problem: Make, fitted: Make, validated: Make
) -> None:
    """This is how TREC and MRPC are scored."""
    features, labels = problem(500, classes, seed=3)
    found = single_test(
        {"train": features[:300], "test": features[300:]},
        {"train": labels[:300], "test": labels[300:]},
        folds=5,
    )
    weight_decay, dev = validated(features[:300], labels[:300], folds=5)
    predicted = fitted(features[:300], labels[:300], weight_decay).predict(features[300:])
    assert found.penalties == (weight_decay,)
    assert found.dev == pytest.approx(dev, abs=0.34)  # at most one row of 300 differs
    assert found.test == pytest.approx(100 * np.mean(predicted == labels[300:]), abs=1e-9)
    expected = 100 * f1_score(labels[300:], predicted) if classes == 2 else None
    assert found.f1 == (pytest.approx(expected, abs=1e-9) if expected else None)


@pytest.mark.usefixtures("exact")
def test_a_given_dev_set_against_scikit_learn(problem: Make, fitted: Make) -> None:
    """This is how SST-2 is scored: the fit is on train alone, whatever dev is."""
    features, labels = problem(500, 2, seed=4)
    labels[250:300] ^= 1  # a dev set that is the contrary of train would show in a fit
    parts = {"train": slice(250), "dev": slice(250, 300), "test": slice(300, 500)}
    found = single_test(
        *({name: values[part] for name, part in parts.items()} for values in (features, labels))
    )
    models = [fitted(features[:250], labels[:250], weight_decay) for weight_decay in PENALTIES]
    scores = [round(100 * model.score(features[250:300], labels[250:300]), 2) for model in models]
    best = int(np.argmax(scores))
    assert found.dev == pytest.approx(scores[best], abs=1e-9)
    assert found.penalties == (PENALTIES[best],)
    test = 100 * models[best].score(features[300:], labels[300:])
    assert found.test == pytest.approx(test, abs=1e-9)


def test_of_equally_good_penalties_the_smallest_is_taken(problem: Make) -> None:
    features, labels = problem(200, 2, seed=7)
    apart = features + 50 * (2 * labels[:, None] - 1).astype(np.float32)
    found = nested_cross_validation(apart, labels, folds=4)
    assert (found.dev, found.test, found.penalties) == (100, 100, (1e-5,) * 4)


@pytest.mark.slow
def test_labels_that_features_say_nothing_about_are_not_learnt() -> None:
    """There are nearly as many features as rows, so held-out rows that leak would show at once."""
    generator = np.random.default_rng(8)
    features = generator.normal(size=(400, 150)).astype(np.float32)
    labels = generator.integers(2, size=400)
    found = nested_cross_validation(features, labels, folds=5)
    assert 42 < found.dev < 58
    assert 42 < found.test < 58


@pytest.mark.slow
def test_rotation_and_shift_of_the_features_change_nothing(problem: Make) -> None:
    features, labels = problem(300, 2, seed=9)
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 12)))
    found = nested_cross_validation(features, labels, folds=5)
    turned = nested_cross_validation((features @ rotation + 2).astype(np.float32), labels, folds=5)
    assert turned.dev == pytest.approx(found.dev, abs=0.2)
    assert turned.test == pytest.approx(found.test, abs=0.4)


@pytest.mark.parametrize("kind", ["large", "small", "collinear", "outlier"])
def test_awkward_features_converge_without_a_warning(kind: str, problem: Make) -> None:
    features, labels = problem(300, 2, seed=10)
    awkward = {
        "large": features * 1e3,
        "small": features * 1e-4,
        "collinear": np.concatenate([features, features, np.zeros_like(features)], axis=1),
        "outlier": np.concatenate([features, 1e3 * features[:, :1] + 1e4], axis=1),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nested_cross_validation(awkward, labels, folds=5)
    majority = 100 * max(np.bincount(labels)) / len(labels)
    if kind == "small":  # every penalty is too large to learn from them
        assert found.test == pytest.approx(majority, abs=1)
    else:
        assert found.test > majority + 10


def test_the_seed_of_the_folds_is_sentevals() -> None:
    assert FOLD_SEED == 1111


# A task from texts to accuracy


class WordVectors:
    """embed(texts): the vector of a text is the sum of random vectors of its words."""

    def __init__(self, width: int = 16) -> None:
        self.width = width
        self.words: dict[str, np.ndarray] = {"": np.zeros(width, np.float32)}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        sums = [np.sum([self.vector(word) for word in text.split() or [""]], 0) for text in texts]
        return np.stack(sums)

    def vector(self, word: str) -> np.ndarray:
        """The vector of a word, which depends on the word alone."""
        if word not in self.words:
            generator = np.random.default_rng(list(word.encode()))
            self.words[word] = generator.normal(size=self.width).astype(np.float32)
        return self.words[word]


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


@pytest.mark.usefixtures("small_tasks")
def test_a_task_is_scored_as_its_splits_say() -> None:
    for task, penalties in {"mr": 10, "sst2": 1, "trec": 1, "mrpc": 1}.items():
        embed = WordVectors()
        data = DATASETS[task]()
        found = transfer(data, embed(data.texts))
        expected = [text for rows in data.values() for text in (*rows.texts, *(rows.second or []))]
        assert data.texts == expected
        assert len(found.penalties) == penalties
        assert found.dev > 90
        assert found.test > 90
        assert (found.f1 is not None) == (task in ("sst2", "mrpc"))


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


@pytest.mark.usefixtures("small_tasks")
def test_fast_mode_has_five_folds_and_its_average_is_that_of_the_dev_scores() -> None:
    embed = WordVectors(4)
    tasks = {task: read() for task, read in DATASETS.items()}
    fast = {task: transfer(data, embed(data.texts), fast=True) for task, data in tasks.items()}
    assert len(fast["mr"].penalties) == 5
    everything = embed([text for data in tasks.values() for text in data.texts])
    expected = np.mean([score.dev for score in fast.values()])
    assert dev_average(list(tasks.values()), everything, transfer) == pytest.approx(
        expected, abs=1e-9
    )


def one_infinite(texts: list[str]) -> np.ndarray:
    """Vectors of ones, but for the eighth, which is infinite."""
    vectors = np.ones((len(texts), 4))
    vectors[7] = np.inf
    return vectors


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("task", ["mr", "sst2", "trec", "mrpc"])
@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (lambda texts: np.full((len(texts), 4), np.nan), "not finite"),
        (one_infinite, "not finite"),
        (lambda texts: np.tile(np.float32([0.1, -2, 3]), (len(texts), 1)), "constant"),
        (lambda texts: np.zeros((len(texts), 4)), "constant"),
        (
            lambda texts: np.random.default_rng(0).normal(size=(len(texts) - 1, 4)),
            r"have the shape \(\d+, 4\)",
        ),
        (
            lambda texts: np.random.default_rng(0).normal(size=len(texts)),
            r"have the shape \(\d+,\)",
        ),
    ],
)
def test_useless_embeddings_have_no_score(
    task: str, embed: Callable[[list[str]], np.ndarray], message: str
) -> None:
    data = DATASETS[task]()
    with pytest.raises(TrialFailure, match=message):
        transfer(data, embed(data.texts))


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_a_real_task_end_to_end(fitted: Make, stratified: Make) -> None:
    """CR by random word vectors is better than the majority of 63.8, and equals scikit-learn's."""
    embed = WordVectors(256)
    data = DATASETS["cr"]()["all"]
    features = embed(data.texts)
    found = transfer(DATASETS["cr"](), features, fast=True)
    folds = zip(stratified(data.labels, 5), found.penalties, strict=True)
    tests = []
    for (rows, held_out), weight_decay in folds:
        model = fitted(features[rows], data.labels[rows], weight_decay)
        tests.append(100 * model.score(features[held_out], data.labels[held_out]))
    assert found.test == pytest.approx(np.mean(tests), abs=0.03)  # about a row of 3,775
    assert found.dev > 70
    assert found.test > 70
