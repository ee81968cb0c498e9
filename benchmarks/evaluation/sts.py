"""Seconds of the seven STS test sets: harness against the evaluator of sentence-transformers.

Both work in one process and in turn, with the same encoder (all-MiniLM-L6-v2, mean pooling), pairs,
precision and threads. The subsets of a year are one list of pairs for both. It needs HARNESS_HUB.

    python benchmarks/evaluation/sts.py [--threads 2] [--rounds 2]
        [--batch-size 32]

The smallest run takes some minutes: `python benchmarks/evaluation/sts.py --rounds 1`.
"""

import argparse
import time
from statistics import median

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

from harness.data.hub import model_folder
from harness.data.sts_pairs import Pairs
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.trials.trial import resolve

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def tests() -> dict[str, Pairs]:
    """Task -> its pairs, of the seven test sets."""
    return {name: suite("sts").load(name) for name in suite("sts").tests}


def theirs(batch_size: int) -> tuple[float, dict[str, float]]:
    """Score with sentence-transformers: its seconds, and task -> Spearman x100."""
    model = SentenceTransformer(str(model_folder(ENCODER)), device="cpu")
    evaluators = {
        name: EmbeddingSimilarityEvaluator(
            task.first,
            task.second,
            task.gold.tolist(),
            main_similarity="cosine",
            name=name,
            batch_size=batch_size,
        )
        for name, task in tests().items()
    }
    # Loading the model is not part of the time, on either side.
    started = time.perf_counter()
    scores = {
        name: evaluator(model)[f"{name}_spearman_cosine"] * 100
        for name, evaluator in evaluators.items()
    }
    return time.perf_counter() - started, scores


def ours() -> tuple[float, dict[str, float]]:
    """Score with harness: its seconds, and task -> Spearman x100."""
    plugin = registry.load("pooling")
    config = resolve(plugin, {"encoder": ENCODER, "pooling": "mean"})
    kit = Kit(plugin.declare(config), torch.device("cpu"))
    embedder = Embedder(kit.build(), kit)
    started = time.perf_counter()
    scores = suite("sts").score_test(embedder).metrics
    return time.perf_counter() - started, scores


def main() -> None:
    """Print both times, their ratio, and the largest difference of a score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        help="that of sentence-transformers; 32 is its default",
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tests()  # so that neither time has the reading of the files
    ratios = []
    for _ in range(options.rounds):
        own_seconds, own = ours()
        peer_seconds, peer = theirs(options.batch_size)
        ratios.append(peer_seconds / own_seconds)
        difference = max(abs(own[name] - peer[name]) for name in peer)
        print(
            f"ours {own_seconds:.1f} s, sentence-transformers {peer_seconds:.1f} s, "
            f"ratio {ratios[-1]:.2f}; average {own['avg']:.2f}, "
            f"largest difference of a score {difference:.4f}",
            flush=True,
        )
    print(f"median ratio {median(ratios):.2f}")


if __name__ == "__main__":
    main()
