"""Seconds of the seven STS test sets: harness against the evaluator of sentence-transformers.

Both work in one process and in turn, with the same encoder (all-MiniLM-L6-v2, mean pooling), pairs,
precision and threads. The subsets of a year are one list of pairs for both. It needs HARNESS_HUB.

    python benchmarks/evaluation/sts.py [--tasks sts13,stsb] [--threads 2] [--rounds 2]
        [--batch-size 32]

A short try: `python benchmarks/evaluation/sts.py --tasks sts16 --rounds 1`.
"""

import argparse
import time
from dataclasses import replace
from statistics import median

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

from harness.data.hub import model_folder
from harness.device import device, synchronise
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import Suite, suite
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def part_of_sts(tasks: str) -> Suite:
    """The suite `sts` with these test sets alone, named with commas between them; "": all seven."""
    sts = suite("sts")
    names = tasks.split(",") if tasks else sts.tests
    return replace(sts, data={name: sts.data[name] for name in names})


def theirs(sts: Suite, batch_size: int) -> tuple[float, dict[str, float]]:
    """Score with sentence-transformers: its seconds, and task -> Spearman x100."""
    model = SentenceTransformer(str(model_folder(ENCODER)), device=device().type)
    evaluators = {
        name: EmbeddingSimilarityEvaluator(
            sts.load(name).first,
            sts.load(name).second,
            sts.load(name).gold.tolist(),
            main_similarity="cosine",
            name=name,
            batch_size=batch_size,
        )
        for name in sts.tests
    }
    # Loading the model is not part of the time, on either side.
    synchronise(device())
    started = time.perf_counter()
    scores = {
        name: evaluator(model)[f"{name}_spearman_cosine"] * 100
        for name, evaluator in evaluators.items()
    }
    return time.perf_counter() - started, scores


def ours(sts: Suite) -> tuple[float, dict[str, float]]:
    """Score with harness: its seconds, and task -> Spearman x100."""
    plugin = registry.load("pooling")
    config = resolve(plugin, {"encoder": ENCODER, "pooling": "mean"})
    kit = Kit(plugin.declare(config), device())
    embedder = Embedder(kit.build(), kit)
    synchronise(kit.device)
    started = time.perf_counter()
    scores = sts.score_test(embedder).metrics  # it copies the vectors back, and so waits for them
    return time.perf_counter() - started, scores


def main() -> None:
    """Print both times, their ratio, and the largest difference of a score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default="", help="test sets with commas; default: all seven")
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
    sts = part_of_sts(options.tasks)
    # Read now, so that neither time has the reading of the files.
    for name in sts.tests:
        sts.load(name)
    ratios = []
    for _ in range(options.rounds):
        own_seconds, own = ours(sts)
        peer_seconds, peer = theirs(sts, options.batch_size)
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
