"""SentEval's classifier: all folds and penalties side by side over one layer after the other.

The fits are those that choose the penalty of a task: ten folds of its training rows (of MR, CR,
SUBJ and MPQA: of its first outer fold) with four penalties each. The reference is a plain torch
loop, one layer at a time, as SentEval has it. Both stop at the same validations, so their
accuracies should be equal. The vectors are those of all-MiniLM-L6-v2, and neither time has their
computation. It needs HARNESS_HUB.

    python benchmarks/evaluation/senteval.py [--task mrpc] [--fits 40] [--threads 1] [--keep FOLDER]

With fewer `--fits`, the reference trains so many of them, spread evenly, and its time is scaled up:
a short try is `--fits 4`.
"""

import argparse
import copy
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transfer import embedded

from harness.data.classification import DATASETS
from harness.evaluation.logistic_search import PENALTIES
from harness.evaluation.senteval_classifier import CLASSIFIER_SEED, TEST_MODE, Rows, fit, given_fold
from harness.evaluation.transfer_tasks import FOLDS, stratified_folds, task_features

Part = tuple[torch.Tensor, torch.Tensor]
"""Features and classes of some rows"""


def trained_alone(fitted: Part, dev: Part, classes: int, penalty: float) -> float:
    """The best accuracy x100 on `dev` of one layer (evaluation_protocol.md, section 2.1)."""
    torch.manual_seed(CLASSIFIER_SEED)
    shuffles, (rows, labels) = np.random.RandomState(CLASSIFIER_SEED), fitted
    layer = nn.Linear(rows.shape[1], classes)
    optimiser = torch.optim.Adam(layer.parameters(), weight_decay=penalty)
    best, passes, failures = -1.0, 0, 0
    while failures <= TEST_MODE.tenacity and passes <= 200:
        for _ in range(TEST_MODE.passes):
            order = torch.from_numpy(shuffles.permutation(len(rows)))
            for batch in order.split(TEST_MODE.batch_size):
                loss = nn.functional.cross_entropy(layer(rows[batch]), labels[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            passes += 1
        with torch.no_grad():
            score = 100 * (layer(dev[0]).argmax(1) == dev[1]).double().mean().item()
        if score > best:
            best, _kept = score, copy.deepcopy(layer)
        else:
            failures += 1
    return best


def main() -> None:
    """Print both times, their ratio, and the largest difference of an accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--task", default="mrpc", choices=[name for name in DATASETS if name != "sst2"]
    )
    parser.add_argument("--fits", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder in which the embeddings are kept")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = DATASETS[options.task]()
    split = "all" if "all" in data else "train"
    features = task_features(data, embedded(options.task, options.keep))[split]
    labels = data[split].labels
    if split == "all":
        rows, _ = stratified_folds(labels, FOLDS)[0]
        features, labels = features[rows], labels[rows]
    splits = stratified_folds(labels, FOLDS)

    started = time.process_time()
    given = Rows(features, labels, torch.device("cpu"))
    layers = fit(given, [given_fold(*each, PENALTIES) for each in splits], TEST_MODE)
    own_seconds = time.process_time() - started
    own = np.concatenate([each.accuracies for each in layers])

    def part(numbers: np.ndarray) -> Part:
        return torch.from_numpy(features[numbers]), torch.from_numpy(labels[numbers])

    fits = [(*map(part, each), penalty) for each in splits for penalty in PENALTIES]
    chosen = np.linspace(0, len(fits) - 1, min(options.fits, len(fits))).round().astype(int)
    started, differences = time.process_time(), []
    for number in chosen:
        fitted, dev, penalty = fits[number]
        alone = trained_alone(fitted, dev, given.classes, penalty)
        differences.append(abs(alone - own[number]))
    seconds = (time.process_time() - started) * len(fits) / len(chosen)
    print(
        f"{options.task}: {len(fits)} fits side by side {own_seconds:.1f} s, one after the other "
        f"{seconds:.1f} s ({len(chosen)} of them timed), ratio {seconds / own_seconds:.1f}; "
        f"largest difference of an accuracy {max(differences):.2f}"
    )


if __name__ == "__main__":
    main()
