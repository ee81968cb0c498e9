"""SentEval's classifier: all folds and penalties side by side over one layer after the other.

The fits are those that choose the penalty of a task: with four penalties each, one fit on SST-2,
whose dev set is given, and ten folds of the training rows of the other tasks (of MR, CR, SUBJ and
MPQA: of the first outer fold). The layer of the chosen penalty is then fitted anew and tested, as
in SentEval. The reference is a plain torch loop, one layer at a time. Both stop at the same
validations, so their accuracies should be equal. The vectors are those of all-MiniLM-L6-v2, and
neither time has their computation. It needs HARNESS_HUB.

    python benchmarks/evaluation/senteval.py [--tasks mrpc,sst2] [--fits 40] [--threads 1]
        [--keep FOLDER]

With fewer `--fits`, the reference trains so many of them, spread evenly, and its time is scaled up:
a short try is `--tasks mrpc --fits 4`.
"""

import argparse
import copy
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from harness.data.hub import model_folder
from harness.data.senteval import DATASETS
from harness.evaluation.senteval_classifier import (
    FOLDS,
    PENALTIES,
    SENTEVAL_SEED,
    TEST_MODE,
    Fold,
    Rows,
    RowSplit,
    fit,
    split_fold,
    stratified_folds,
    task_features,
)

CPU = torch.device("cpu")
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def embedded(task: str, folder: Path | None) -> np.ndarray:
    """The vectors of all texts of a task; from `folder` where they are, and else kept there."""
    path = folder and folder / f"{task}.npy"
    if path and path.exists():
        kept: np.ndarray = np.load(path)
        return kept
    model = SentenceTransformer(str(model_folder(ENCODER)), device="cpu")
    texts = DATASETS[task]().texts
    distinct = sorted(set(texts))
    found = dict(zip(distinct, model.encode(distinct), strict=True))
    vectors = np.stack([found[text] for text in texts])
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, vectors)
    return vectors


@dataclass
class Problem:
    """The rows of a task, by their numbers."""

    features: np.ndarray
    labels: np.ndarray
    splits: list[RowSplit]
    """The rows that are fitted and those that stop it, for the choice of a penalty"""
    refitted: np.ndarray
    tested: np.ndarray
    holds_out: bool
    """Whether the refit stops on 5 % of its own rows, and not on a dev set that is given"""


def problem(task: str, folder: Path | None) -> Problem:
    """The fits of a task; of a nested cross-validation those of its first outer fold."""
    data = DATASETS[task]()
    parts = task_features(data, embedded(task, folder))
    features = np.concatenate([parts[split] for split in data])
    labels = np.concatenate([data[split].labels for split in data])
    ends = np.cumsum([len(parts[split]) for split in data])[:-1]
    numbers = dict(zip(data, np.split(np.arange(len(labels)), ends), strict=True))
    if "dev" in data:
        train = numbers["train"]
        return Problem(
            features, labels, [(train, numbers["dev"])], train, numbers["test"], holds_out=False
        )
    if "all" in data:
        train, tested = stratified_folds(np.arange(len(labels)), labels, FOLDS)[0]
    else:
        train, tested = numbers["train"], numbers["test"]
    splits = stratified_folds(train, labels[train], FOLDS)
    return Problem(features, labels, splits, train, tested, holds_out=True)


class Reference:
    """SentEval's fits, one after the other (evaluation_protocol.md, section 2.1)."""

    def __init__(self, data: Problem) -> None:
        self.features = torch.from_numpy(data.features)
        self.labels = torch.from_numpy(data.labels)
        self.classes = int(data.labels.max()) + 1

    def accuracy(self, layer: nn.Linear, rows: np.ndarray) -> float:
        """The accuracy x100 of a layer on some rows."""
        with torch.no_grad():
            right = layer(self.features[rows]).argmax(1) == self.labels[rows]
        return 100 * right.double().mean().item()

    def fit(self, rows: np.ndarray, dev: np.ndarray | None, penalty: float) -> nn.Linear:
        """The layer at its best validation on `dev`, or on a random 5 % of the rows."""
        torch.manual_seed(SENTEVAL_SEED)
        shuffles = np.random.RandomState(SENTEVAL_SEED)
        if dev is None:
            order = shuffles.permutation(len(rows))
            dev, rows = np.split(rows[order], [int(0.05 * len(rows))])
        features, labels = self.features[rows], self.labels[rows]
        layer = nn.Linear(features.shape[1], self.classes)
        optimiser = torch.optim.Adam(layer.parameters(), weight_decay=penalty)
        best, kept, passes, failures = -1.0, layer, 0, 0
        while failures <= TEST_MODE.tenacity and passes <= 200:
            for _ in range(TEST_MODE.passes):
                order = torch.from_numpy(shuffles.permutation(len(features)))
                for batch in order.split(TEST_MODE.batch_size):
                    loss = nn.functional.cross_entropy(layer(features[batch]), labels[batch])
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                passes += 1
            score = self.accuracy(layer, dev)
            if score > best:
                best, kept = score, copy.deepcopy(layer)
            else:
                failures += 1
        return kept


def compare(task: str, fits: int, folder: Path | None) -> None:
    """Print both times, their ratio, and the differences of the accuracies of a task."""
    data = problem(task, folder)
    started = time.process_time()
    rows = Rows(data.features, data.labels, CPU)
    layers = fit(rows, [Fold(*each, PENALTIES) for each in data.splits], TEST_MODE)
    own_seconds = time.process_time() - started
    own = np.stack([each.accuracies for each in layers])

    reference = Reference(data)
    every = [(*split, penalty) for split in data.splits for penalty in PENALTIES]
    chosen = np.linspace(0, len(every) - 1, min(fits, len(every))).round().astype(int)
    started, differences = time.process_time(), []
    for number in chosen:
        fitted, dev, penalty = every[number]
        alone = reference.accuracy(reference.fit(fitted, dev, penalty), dev)
        differences.append(abs(alone - own.flat[number]))
    seconds = (time.process_time() - started) * len(every) / len(chosen)

    best = int(own.mean(0).round(2).argmax())
    if data.holds_out:
        layer = fit(rows, [split_fold(data.refitted, PENALTIES[best])], TEST_MODE)[0].weights
    else:
        layer = layers[0].weights[best : best + 1]
    dev = None if data.holds_out else data.splits[0][1]
    alone = reference.accuracy(reference.fit(data.refitted, dev, PENALTIES[best]), data.tested)
    print(
        f"{task}: {len(every)} fits side by side {own_seconds:.1f} s, one after the other "
        f"{seconds:.1f} s ({len(chosen)} of them timed), ratio {seconds / own_seconds:.1f}; "
        f"largest difference of an accuracy {max(differences):.2f}; "
        f"test {rows.accuracies(data.tested, layer)[0]:.2f} and {alone:.2f}",
        flush=True,
    )


def main() -> None:
    """Print a line for each task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default=",".join(DATASETS))
    parser.add_argument("--fits", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder in which the embeddings are kept")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for task in options.tasks.split(","):
        compare(task, options.fits, options.keep)


if __name__ == "__main__":
    main()
