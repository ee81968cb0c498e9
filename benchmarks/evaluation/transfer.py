"""Processor seconds of the transfer tasks: harness against a plain use of scikit-learn.

Both take turns on the same embeddings, folds and penalties. The embeddings are those of
all-MiniLM-L6-v2, and neither time has their computation. The reference calls LogisticRegression
with its defaults (L-BFGS, tolerance 1e-4) for every fold and penalty of the nested
cross-validation. It needs HARNESS_HUB.

    python benchmarks/evaluation/transfer.py [--tasks cr,subj] [--rounds 2] [--threads 1]
        [--keep FOLDER] [--tolerance 1e-4]

A short try: `python benchmarks/evaluation/transfer.py --tasks trec --rounds 1`.
"""

import argparse
import functools
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from harness.data.hub import model_folder
from harness.data.senteval import DATASETS, Splits
from harness.evaluation.transfer import transfer
from harness.evaluation.transfer_tasks import FOLD_SEED, FOLDS, PENALTIES, Accuracy, task_features

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


class Reference:
    """SentEval's protocol with scikit-learn, one fit after the other."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance

    def __call__(self, data: Splits, features: dict[str, np.ndarray]) -> Accuracy:
        """Score a task from its features."""
        if "all" in data:
            return self.nested(features["all"], data["all"].labels)
        train, labels = features["train"], data["train"].labels
        if "dev" in data:
            scores = [
                self.fit(train, labels, penalty).score(features["dev"], data["dev"].labels)
                for penalty in PENALTIES
            ]
        else:
            scores = self.validate(train, labels)
        # As SentEval does, which compares percentages with two decimals.
        best = int(np.argmax(np.round(scores, 4)))
        test = self.fit(train, labels, PENALTIES[best]).score(features["test"], data["test"].labels)
        return Accuracy(100 * scores[best], 100 * test, (PENALTIES[best],))

    def nested(self, features: np.ndarray, labels: np.ndarray) -> Accuracy:
        """Score MR, CR, SUBJ or MPQA."""
        dev, test, penalties = [], [], []
        for fitted, held_out in self.folds(labels):
            scores = self.validate(features[fitted], labels[fitted])
            best = int(np.argmax(np.round(scores, 4)))
            model = self.fit(features[fitted], labels[fitted], PENALTIES[best])
            dev.append(100 * scores[best])
            test.append(100 * model.score(features[held_out], labels[held_out]))
            penalties.append(PENALTIES[best])
        return Accuracy(float(np.mean(dev)), float(np.mean(test)), tuple(penalties))

    def validate(self, features: np.ndarray, labels: np.ndarray) -> list[float]:
        """The mean accuracy over the folds, for each penalty."""
        found = []
        for penalty in PENALTIES:
            accuracies = []
            for fitted, held_out in self.folds(labels):
                model = self.fit(features[fitted], labels[fitted], penalty)
                accuracies.append(model.score(features[held_out], labels[held_out]))
            found.append(float(np.mean(accuracies)))
        return found

    def fit(self, features: np.ndarray, labels: np.ndarray, penalty: float) -> LogisticRegression:
        """Fit one classifier."""
        # harness.evaluation.transfer says why C is this.
        strength = (2 if labels.max() == 1 else 1) / (penalty * len(labels))
        model = LogisticRegression(C=strength, tol=self.tolerance, max_iter=1000)
        return model.fit(features, labels)

    def folds(self, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """SentEval's folds: the rows that are fitted, and those that are held out."""
        splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=FOLD_SEED)
        return list(splitter.split(labels, labels))


def compare(task: str, options: argparse.Namespace) -> float:
    """Print the line of a task, and return the ratio of the times."""
    vectors = embedded(task, options.keep)
    data = DATASETS[task]()
    features = task_features(data, vectors)
    own, own_seconds = clocked(functools.partial(transfer, data, vectors))
    peer, peer_seconds = clocked(functools.partial(Reference(options.tolerance), data, features))
    ratio = peer_seconds / own_seconds
    f1 = "" if task != "mrpc" else f", F1 {own.f1:.2f}"
    print(
        f"{task:5} ours {own_seconds:6.2f} s, scikit-learn {peer_seconds:6.2f} s, "
        f"ratio {ratio:.2f}; dev {own.dev:.2f} ({own.dev - peer.dev:+.2f}), "
        f"test {own.test:.2f} ({own.test - peer.test:+.2f}){f1}",
        flush=True,
    )
    return ratio


def clocked(work: "functools.partial[Accuracy]") -> tuple[Accuracy, float]:
    """Do a piece of work; returns its result and its processor seconds."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def main() -> None:
    """Print for each task both times, their ratio, and the differences of the accuracies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default="cr", help=f"comma-separated; all: {','.join(DATASETS)}")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder in which the embeddings are kept")
    parser.add_argument(
        "--tolerance", type=float, default=1e-4, help="that of scikit-learn; 1e-4 is its default"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with threadpool_limits(options.threads):
        ratios = [
            compare(task, options)
            for _ in range(options.rounds)
            for task in options.tasks.split(",")
        ]
    print(f"median ratio {median(ratios):.2f}")


if __name__ == "__main__":
    main()
