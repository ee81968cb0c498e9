"""SentEval's own classifier, and the published protocol of the transfer tasks with it.

The protocol is in evaluation_protocol.md, section 2.1. The classifier is a linear layer that an
early-stopped optimiser trains. Every fit starts from the same layer, the one that torch draws from
seed 1111, and shuffles its rows with NumPy's generator of that seed. The bias decays as the weights
do, so it is one more feature, which is always 1.

SentEval trains one layer after the other, hundreds for a task. Here all folds and penalties take
their steps together: a step is two batched matrix products. A fold whose layers have all stopped
leaves the batch. Dev accuracies are high, because SentEval stops a training on the rows that then
give its dev accuracy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from harness.data.senteval import Splits
from harness.device import device
from harness.errors import TrialFailure

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
"""SentEval's grid of weight decays (evaluation_protocol.md, section 2.1)"""
RowSplit = tuple[np.ndarray, np.ndarray]
"""The numbers of the rows that are fitted, and of those that are held out"""
FOLDS, FAST_FOLDS = 10, 5
SENTEVAL_SEED = 1111
"""SentEval's seed of the folds, of the first weights and of the shuffles, in every trial"""


@dataclass(frozen=True)
class Accuracy:
    """The accuracies x100 of a task."""

    dev: float
    """The accuracy of the best penalty on held-out training rows, or on the given dev set.

    Hyperparameters are chosen by it."""
    test: float
    penalties: tuple[float, ...]
    """The chosen weight decay, or that of each outer fold"""
    f1: float | None = None
    """F1 x100 of class 1 on the given test set, where there are two classes; MRPC reports it"""


def stratified_folds(numbers: np.ndarray, labels: np.ndarray, folds: int) -> list[RowSplit]:
    """SentEval's folds of the rows with these numbers, which have these labels."""
    splits = StratifiedKFold(folds, shuffle=True, random_state=SENTEVAL_SEED).split(numbers, labels)
    return [(numbers[fitted], numbers[held_out]) for fitted, held_out in splits]


def task_features(data: Splits, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Split -> its features, (rows, width) float32, from the vectors of `data.texts`.

    The features of a pair are |u - v| and u * v, side by side. Raises TrialFailure when the vectors
    are constant, not finite, or not one for each text.
    """
    vectors, expected = np.asarray(vectors, np.float32), len(data.texts)
    if vectors.ndim != 2 or len(vectors) != expected:
        raise TrialFailure(f"the embeddings of {expected} texts have the shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise TrialFailure("the embeddings are not finite")
    # The tolerance is relative, because batches leave the rounding of float32 on equal vectors.
    if np.ptp(vectors, axis=0).max() <= 1e-6 * np.abs(vectors).max():
        raise TrialFailure("the embedding is constant")
    features, start = {}, 0
    for split, rows in data.items():
        own = vectors[start : start + len(rows)]
        start += len(rows)
        if rows.second is not None:
            other = vectors[start : start + len(rows)]
            start += len(rows)
            own = np.concatenate([np.abs(own - other), own * other], axis=1)
        features[split] = own
    return features


MOST_PASSES = 200
"""No pass begins a round of `passes` beyond this number"""


@dataclass(frozen=True)
class Training:
    """Options with which SentEval trains a layer."""

    optimiser: Literal["adam", "rmsprop"]
    learning_rate: float
    batch_size: int
    passes: int
    """Passes over the rows between two validations; SentEval calls it `epoch_size`"""
    tenacity: int
    """Validations without improvement that are forgiven, in all; the next one ends the training"""


TEST_MODE = Training("adam", 1e-3, batch_size=64, passes=4, tenacity=5)
"""The mode of the published scores"""
FAST_MODE = Training("rmsprop", 1e-2, batch_size=128, passes=2, tenacity=3)
"""The mode in which the trainers of the papers score dev; torch's learning rate for RMSprop"""


@dataclass(frozen=True)
class Fold:
    """The rows of some fits: one layer for each penalty."""

    fitted: np.ndarray
    """The numbers of the rows that are fitted, in the order in which SentEval has them"""
    validated: np.ndarray
    """The numbers of the rows on which the training stops"""
    penalties: Sequence[float]
    """The weight decay of each layer; all folds have equally many"""
    shuffles: np.random.RandomState = field(
        default_factory=lambda: np.random.RandomState(SENTEVAL_SEED)
    )
    """The source of the shuffles"""


def split_fold(rows: np.ndarray, penalty: float) -> Fold:
    """A fold that holds out a random 5 % of its rows, as SentEval does in a refit."""
    shuffles = np.random.RandomState(SENTEVAL_SEED)
    order, held_out = shuffles.permutation(len(rows)), int(0.05 * len(rows))
    return Fold(rows[order[held_out:]], rows[order[:held_out]], (penalty,), shuffles)


@dataclass(frozen=True)
class Layers:
    """The layers of a fold at their best validation."""

    accuracies: np.ndarray
    """(penalties,): the accuracy x100 on the validation rows"""
    weights: Tensor
    """(penalties, classes, width + 1); the bias comes last"""


class Rows:
    """The rows of a task on a device: their features, with the 1 of the bias, and their classes."""

    def __init__(self, features: np.ndarray, labels: np.ndarray, device: torch.device) -> None:
        """features: (rows, width) float32; labels: (rows,), from 0."""
        ones = np.ones((len(features), 1), np.float32)
        augmented = np.concatenate([np.asarray(features, np.float32), ones], axis=1)
        self.features = torch.from_numpy(augmented).to(device)
        self.labels, self.classes = labels, int(labels.max()) + 1
        self.classes_of = torch.from_numpy(labels).long().to(device)
        """(rows,): `labels` on the device"""

    def at(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The features of rows (folds, batch), and 1 at the class of each: the second is
        (folds, 1, classes, batch)."""
        flat = numbers.flatten()
        # On a CPU this copies whole rows, and indexing with `numbers` copies number by number.
        features = self.features.index_select(0, flat).view(*numbers.shape, -1)
        labels = self.classes_of.index_select(0, flat).view(len(numbers), 1, 1, -1)
        classes = torch.arange(self.classes, device=labels.device)[:, None]
        return features, labels == classes

    def predicted(self, rows: np.ndarray, weights: Tensor) -> np.ndarray:
        """The classes of some rows by layers (penalties, classes, width + 1): (penalties, rows)."""
        numbers = torch.from_numpy(rows).to(self.features.device)
        chosen = self.features.index_select(0, numbers)
        # A training in bf16 scores dev under its autocast.
        with torch.autocast(chosen.device.type, enabled=False):
            return (weights @ chosen.T).argmax(1).cpu().numpy()

    def accuracies(self, rows: np.ndarray, weights: Tensor) -> np.ndarray:
        """The accuracy x100 of each layer on some rows."""
        found: np.ndarray = 100 * (self.predicted(rows, weights) == self.labels[rows]).mean(1)
        return found


def fit(rows: Rows, folds: Sequence[Fold], training: Training) -> list[Layers]:
    """Train the layers of all folds side by side, each until it stops; in the order of `folds`."""
    # With the longest first, the folds that still have a batch at the end of a pass come first.
    order = sorted(range(len(folds)), key=lambda index: -len(folds[index].fitted))
    active = [_Progress(folds[index], training.tenacity) for index in order]
    started = list(active)
    layers = _Batch(rows, [progress.fold for progress in active], training)
    for _ in range(0, MOST_PASSES + 1, training.passes):
        with torch.autocast(rows.features.device.type, enabled=False):
            for _ in range(training.passes):
                layers.run_pass()
        for number, progress in enumerate(active):
            progress.validate(rows, layers.weights_of(number))
        going_on = [number for number, progress in enumerate(active) if progress.goes_on]
        if not going_on:
            break
        if len(going_on) < len(active):
            active = [active[number] for number in going_on]
            layers.keep(going_on)
    layers_of = dict(zip(order, (progress.best for progress in started), strict=True))
    return [layers_of[index] for index in range(len(folds))]


class _Progress:
    """The validations of a fold's layers."""

    def __init__(self, fold: Fold, tenacity: int) -> None:
        self.fold = fold
        self.left = np.full(len(fold.penalties), tenacity)
        """Validations without improvement that each layer may still have; -1: it has stopped"""
        self.best: Layers = Layers(np.full(len(fold.penalties), -1.0), torch.empty(0))

    @property
    def goes_on(self) -> bool:
        """Whether some layer has not stopped."""
        return bool((self.left >= 0).any())

    def validate(self, rows: Rows, weights: Tensor) -> None:
        """Compare the layers (penalties, classes, width + 1) with the best ones so far."""
        accuracies = rows.accuracies(self.fold.validated, weights)
        runs = self.left >= 0
        better = runs & (accuracies > self.best.accuracies)
        # SentEval never sets its count back, so an improvement forgives nothing.
        self.left = self.left - (runs & ~better)
        if better.any():
            chosen = torch.from_numpy(better).to(weights.device)[:, None, None]
            before = self.best.weights if len(self.best.weights) else torch.zeros_like(weights)
            self.best = Layers(
                np.where(better, accuracies, self.best.accuracies),
                torch.where(chosen, weights, before),
            )


class _Batch:
    """The layers of all folds that still train, with the state of their optimiser.

    Weights are (folds, penalties * classes, width + 1): with the few outputs in front, both
    products are several times as quick on a CPU as with the outputs last.
    """

    def __init__(self, rows: Rows, folds: list[Fold], training: Training) -> None:
        self.rows, self.folds, self.training = rows, folds, training
        device = rows.features.device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SENTEVAL_SEED)
            layer = nn.Linear(rows.features.shape[1] - 1, rows.classes)
        first = torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach().to(device)
        penalties = torch.tensor([list(fold.penalties) for fold in folds], device=device)
        self.weights = first.repeat(len(folds), penalties.shape[1], 1)
        self.penalties = penalties.repeat_interleave(rows.classes, dim=1)[:, :, None]
        self.mean = torch.zeros_like(self.weights)
        self.square = torch.zeros_like(self.weights)
        self.steps = torch.zeros(len(folds), 1, 1, dtype=torch.float64, device=device)

    def weights_of(self, place: int) -> Tensor:
        """The layers of a fold, (penalties, classes, width + 1)."""
        weights = self.weights[place]
        return weights.view(-1, self.rows.classes, weights.shape[1])

    def keep(self, places: list[int]) -> None:
        """Go on with these folds alone."""
        self.folds = [self.folds[place] for place in places]
        for name in ("weights", "penalties", "mean", "square", "steps"):
            setattr(self, name, getattr(self, name)[places])

    def run_pass(self) -> None:
        """One pass of every fold over its rows, in an order of its own."""
        size = self.training.batch_size
        lengths = np.array([len(fold.fitted) for fold in self.folds])
        order = np.zeros((len(self.folds), -(-lengths[0] // size) * size), np.int64)
        for place, fold in enumerate(self.folds):
            order[place, : lengths[place]] = fold.fitted[fold.shuffles.permutation(lengths[place])]
        # A pass is copied to the device at once, and not step by step.
        shuffled = torch.from_numpy(order).to(self.weights.device)
        ends = torch.from_numpy(lengths).to(self.weights.device)
        for start in range(0, lengths[0], size):
            with_rows = int((lengths > start).sum())
            taken = (ends[:with_rows] - start).clamp(max=size)
            self._step(shuffled[:with_rows, start : start + size], taken)

    def _step(self, numbers: Tensor, taken: Tensor) -> None:
        """A step of the first folds, on rows (folds, batch), of which the first `taken` count."""
        count, (inputs, targets) = len(numbers), self.rows.at(numbers)
        weights = self.weights[:count]
        shape = (count, -1, self.rows.classes, numbers.shape[1])
        scores = torch.bmm(weights, inputs.transpose(1, 2)).view(shape)
        places = torch.arange(numbers.shape[1], device=taken.device)
        share = (places < taken[:, None]) / taken[:, None]
        slopes = (scores.softmax(2) - targets.float()).flatten(1, 2) * share[:, None]
        gradient = torch.baddbmm(weights * self.penalties[:count], slopes, inputs)
        self._update(count, gradient)

    def _update(self, count: int, gradient: Tensor) -> None:
        """Adam's or RMSprop's step of the first `count` folds, as torch.optim computes it."""
        rate, square = self.training.learning_rate, self.square[:count]
        if self.training.optimiser == "rmsprop":
            square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
            self.weights[:count].addcdiv_(gradient, square.sqrt().add_(1e-8), value=-rate)
            return
        self.steps[:count] += 1
        mean, steps = self.mean[:count], self.steps[:count]
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        root = (1 - 0.999**steps).sqrt().to(square.dtype)
        scale = (rate / (1 - 0.9**steps)).to(square.dtype)
        self.weights[:count].sub_(mean * scale / (square.sqrt() / root).add_(1e-8))


def transfer(data: Splits, vectors: np.ndarray, *, fast: bool = False) -> Accuracy:
    """The accuracies of a task.

    vectors: (len(data.texts), width). `fast`: SentEval's fast mode, with 5 folds. Raises
    TrialFailure when the vectors are constant or not finite.
    """
    features = task_features(data, vectors)
    labels = {split: rows.labels for split, rows in data.items()}
    folds, training = (FAST_FOLDS, FAST_MODE) if fast else (FOLDS, TEST_MODE)
    if "all" in data:
        return nested_cross_validation(features["all"], labels["all"], folds, training)
    return single_test(features, labels, folds, training)


def nested_cross_validation(
    features: np.ndarray, labels: np.ndarray, folds: int = FOLDS, training: Training = TEST_MODE
) -> Accuracy:
    """Score MR, CR, SUBJ or MPQA, which have no test set.

    features: (rows, width) float32; labels: (rows,), from 0. The layers of all inner folds of all
    outer folds train side by side, and then those of the outer folds with their chosen penalties.
    """
    rows = Rows(features, labels, device())
    outer = stratified_folds(np.arange(len(labels)), labels, folds)
    inner: list[RowSplit] = []
    for fitted, _ in outer:
        inner += stratified_folds(fitted, labels[fitted], folds)
    scores = _validated(rows, inner, training)[0].reshape(len(outer), folds, -1).mean(1)
    best = _best(scores)
    penalties = [PENALTIES[index] for index in best]
    refits = [split_fold(fitted, each) for (fitted, _), each in zip(outer, penalties, strict=True)]
    layers = fit(rows, refits, training)
    tests = [
        rows.accuracies(tested, layer.weights)[0]
        for (_, tested), layer in zip(outer, layers, strict=True)
    ]
    dev = scores[np.arange(len(outer)), best].mean()
    return Accuracy(float(dev), float(np.mean(tests)), tuple(penalties))


def single_test(
    features: dict[str, np.ndarray],
    labels: dict[str, np.ndarray],
    folds: int = FOLDS,
    training: Training = TEST_MODE,
) -> Accuracy:
    """Score SST-2, TREC or MRPC, which are fitted on `train` and tested on `test`.

    features: (rows, width) float32, and labels: (rows,), from 0, of each split. The penalty is
    chosen on `dev`, or else by a cross-validation on `train`.
    """
    classes = np.concatenate([labels[split] for split in features])
    rows = Rows(np.concatenate(list(features.values())), classes, device())
    ends = np.cumsum([len(part) for part in features.values()])
    numbers = dict(zip(features, np.split(np.arange(len(classes)), ends[:-1]), strict=True))
    train, has_dev = numbers["train"], "dev" in numbers
    if has_dev:
        splits = [(train, numbers["dev"])]
    else:
        splits = stratified_folds(train, labels["train"], folds)
    validated, layers = _validated(rows, splits, training)
    scores = validated.mean(0)
    best = int(_best(scores))
    if has_dev:  # SentEval's refit has the same rows and the same seed, so it gives the same layer
        weights = layers[0].weights[best : best + 1]
    else:
        weights = fit(rows, [split_fold(train, PENALTIES[best])], training)[0].weights
    [predicted] = rows.predicted(numbers["test"], weights)
    right = predicted == labels["test"]
    f1 = 100 * f1_score(labels["test"], predicted) if rows.classes == 2 else None
    return Accuracy(float(scores[best]), float(100 * right.mean()), (PENALTIES[best],), f1)


def _validated(
    rows: Rows, splits: list[RowSplit], training: Training
) -> tuple[np.ndarray, list[Layers]]:
    """The best accuracies x100 on the held-out rows, (splits, PENALTIES), and their layers."""
    layers = fit(rows, [Fold(*split, PENALTIES) for split in splits], training)
    return np.stack([each.accuracies for each in layers]), layers


def _best(scores: np.ndarray) -> np.ndarray:
    """The numbers of the best penalties along the last axis.

    As in SentEval: of penalties that are equal to two decimals, the smallest is taken.
    """
    found: np.ndarray = scores.round(2).argmax(-1)
    return found
