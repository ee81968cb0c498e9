"""Training throughput: harness against the trainer of sentence-transformers.

Both train unsupervised SimCSE, in one process and in turn, with the same encoder, sentences, batch
size, length, precision and threads. Theirs is `MultipleNegativesRankingLoss` on pairs of equal
sentences. It needs HARNESS_HUB and the environment of `bootstrap.py`.

    python benchmarks/training.py [--precision fp32 --precision bf16] [--steps 12] [--rounds 3]
        [--threads 1]

A short try: `python benchmarks/training.py --precision fp32 --steps 2 --rounds 1`.
"""

import argparse
import tempfile
import time
from statistics import median

import torch
from datasets import Dataset, disable_progress_bars
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback, TrainerState

from harness.data.corpora import source
from harness.data.hub import model_folder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer
from harness.training.seeds import seed_everything

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
BATCH, LENGTH = 64, 32


class Clock(TrainerCallback):
    """Seconds from the begin of the first step to the end of the last, batches included."""

    def on_step_begin(self, _: object, state: TrainerState, *__: object, **___: object) -> None:
        if state.global_step == 0:
            self.started = time.perf_counter()

    def on_step_end(self, *_: object, **__: object) -> None:
        self.seconds = time.perf_counter() - self.started


def theirs(sentences: list[str], steps: int, precision: str, seed: int) -> float:
    """Train with sentence-transformers, and return its sentences per second."""
    model = SentenceTransformer(str(model_folder(ENCODER)), device="cpu")
    model.max_seq_length = LENGTH
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            max_steps=steps,
            learning_rate=3e-5,
            bf16=precision == "bf16",
            use_cpu=True,
            seed=seed,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        trainer = SentenceTransformerTrainer(
            model,
            arguments,
            Dataset.from_dict({"anchor": sentences, "positive": sentences}),
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[clock],
        )
        trainer.train()
    return BATCH * steps / clock.seconds


def ours(steps: int, precision: str, seed: int) -> float:
    """Train with our loop, and return its sentences per second."""
    plugin = registry.load("simcse")
    values = {"encoder": ENCODER, "batch_size": BATCH, "max_length": LENGTH, "precision": precision}
    seed_everything(seed)
    kit = Kit(plugin.declare(resolve(plugin, {**values, "max_steps": steps})), torch.device("cpu"))
    kit.build_shared()
    trainer = Trainer(kit.build(), kit, seed, evaluate=lambda: 0.0, report=lambda _: None)
    outcome = trainer.run()
    return outcome.sentences / outcome.seconds


def main() -> None:
    """Print both rates and their ratio, for each precision."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--precision", choices=["fp32", "bf16"], action="append", help="default: both"
    )
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    disable_progress_bars()
    corpus = source("wiki1m")
    sentences = corpus.read(corpus.paths()).columns[0]
    for precision in options.precision or ["fp32", "bf16"]:
        # Neither of the first runs counts: they fill caches.
        theirs(sentences, 2, precision, 0)
        ours(2, precision, 0)
        ratios = []
        for number in range(options.rounds):
            peer = theirs(sentences, options.steps, precision, number)
            own = ours(options.steps, precision, number)
            ratios.append(own / peer)
            print(
                f"{precision}: ours {own:.1f}, sentence-transformers {peer:.1f} sentences/s, "
                f"ratio {ratios[-1]:.2f}"
            )
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{precision}: median ratio {median(ratios):.2f} ({spread})")


if __name__ == "__main__":
    main()
