"""Random models, texts of embedded sentences, and a clock that waits for the GPU."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoModelForMaskedLM, BertConfig, PreTrainedConfig, RobertaConfig

from harness.data.corpora import source
from harness.device import device, synchronise
from harness.plugin.kit import load_tokenizer


def shape_of(name: str) -> PreTrainedConfig:
    """The shape of BERT base, and that of RoBERTa large; both read the same word pieces."""
    if name == "base":
        return BertConfig()
    return RobertaConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        max_position_embeddings=514, type_vocab_size=1, pad_token_id=0,
    )  # fmt: skip


@dataclass(frozen=True)
class Inputs:
    """Models and texts of the measurements: their folders and lengths."""

    folder: Path
    short: bool
    """Whether this is a rehearsal"""

    def encoder(self, shape: str) -> str:
        """An encoder with random weights; in a rehearsal, the embedded one."""
        if self.short:
            return "tiny-bert"
        path = self.folder / shape
        if not path.exists():
            AutoModelForMaskedLM.from_config(shape_of(shape)).save_pretrained(path)
            load_tokenizer("tiny-bert").save_pretrained(path)
        return str(path)

    @property
    def texts(self) -> Path:
        """A corpus of texts with 10 to 50 words."""
        path = self.folder / "texts.txt"
        if not path.exists():
            corpus = source("graded-sentences")
            sentences = corpus.corpus(corpus.paths()).columns[0]
            draw = random.Random(0)
            lines = [
                " ".join(draw.choices(sentences, k=draw.randint(2, 5)))
                for _ in range(500 if self.short else 40_000)
            ]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def steps(self, number: int) -> int:
        """Number of steps, or two in a rehearsal."""
        return 2 if self.short else number


def timed(call: Callable[[], object]) -> float:
    """Seconds of a call, with all that it asks the GPU for."""
    synchronise(device())
    started = time.perf_counter()
    call()
    synchronise(device())
    return time.perf_counter() - started
