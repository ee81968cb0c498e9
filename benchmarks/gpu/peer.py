"""The trainer of sentence-transformers, as `measure.py` compares with it."""

import time

from datasets import Dataset
from inputs import Inputs
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback, TrainerState

from harness.data.hub import model_folder
from harness.device import device, resolve_precision, synchronise

LENGTH = 32
WARM_UP = 2
"""Steps that do not count, because they load kernels"""


class StepClock(TrainerCallback):
    """Seconds from the end of the warm-up to the end of the last step."""

    def on_step_end(self, _: object, state: TrainerState, *__: object, **___: object) -> None:
        if state.global_step in (WARM_UP, state.max_steps):
            synchronise(device())
            now = time.perf_counter()
            self.started = now if state.global_step == WARM_UP else self.started
            self.seconds = now - self.started


def theirs(inputs: Inputs, batch: int, steps: int) -> float:
    """Sentences per second of the trainer of sentence-transformers."""
    model = SentenceTransformer(str(model_folder(inputs.encoder("base"))), device=device().type)
    model.max_seq_length = LENGTH
    texts = inputs.texts.read_text(encoding="utf-8").splitlines()
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(inputs.folder / "out"), per_device_train_batch_size=batch,
        max_steps=steps + WARM_UP, learning_rate=3e-5,
        bf16=resolve_precision("auto", device()) == "bf16", use_cpu=device().type == "cpu",
        save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
    )  # fmt: skip
    data = Dataset.from_dict({"anchor": texts, "positive": texts})
    loss, clock = MultipleNegativesRankingLoss(model), StepClock()
    SentenceTransformerTrainer(model, arguments, data, loss=loss, callbacks=[clock]).train()
    return batch * steps / clock.seconds
