"""Unsupervised SimCSE on one page of plain torch: what `harness run simcse` computes, by hand.

    python docs/simcse_by_hand.py bert-base-uncased sentences.txt

Gao, Yao and Chen, EMNLP 2021. The sections are those of docs/papers/simcse.md. A test compares
every loss of this page and the weights after the last step with those of the plugin. The harness
does the same in bf16 and without padding, scores dev along the way, and keeps the best weights;
here the weights of the last step stay.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

LEARNING_RATE = 3e-5  # section 1.3, BERT base
BATCH_SIZE = 64
TEMPERATURE = 0.05
MAX_LENGTH = 32  # tokens of a training sentence, [CLS] and [SEP] included
LARGEST_NORM = 1.0  # of the gradient of a step


class SimCSE(nn.Module):
    """An encoder and the head that it has while it trains (section 1.5)."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(name, add_pooling_layer=False)
        width = self.encoder.config.hidden_size
        # A fresh layer, not BERT's pretrained pooler.
        self.head = nn.Linear(width, width)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def embed(self, texts: dict[str, Tensor]) -> Tensor:
        """Sentence vectors at test time, (rows, width): the state of [CLS], without the head."""
        return self.encoder(**texts).last_hidden_state[:, 0]

    def loss(self, texts: dict[str, Tensor]) -> Tensor:
        """Mean over i of the cross entropy of cos(first_i, second_j) / temperature, target j = i.

        Every sentence is in the batch twice. The two rows differ by their dropout masks alone, and
        that is the whole augmentation (section 1.1). The second views of the other sentences are
        the negatives.
        """
        twice = {name: rows.repeat_interleave(2, dim=0) for name, rows in texts.items()}
        vectors = functional.normalize(torch.tanh(self.head(self.embed(twice))), dim=1)
        first, second = vectors[0::2], vectors[1::2]  # (batch, width) each
        logits = first @ second.T / TEMPERATURE  # (batch, batch)
        return functional.cross_entropy(logits, torch.arange(len(logits)))


def batches(sentences: list[str], seed: int) -> Iterator[list[str]]:
    """One epoch: every sentence once, in an order that follows from the seed."""
    order = np.random.default_rng((seed, 0)).permutation(len(sentences))
    for start in range(0, len(order), BATCH_SIZE):
        yield [sentences[number] for number in order[start : start + BATCH_SIZE]]


def train(model: SimCSE, tokenizer, sentences: list[str], seed: int) -> Iterator[float]:
    """Train for one epoch; the loss of every step before its update."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    steps = -(-len(sentences) // BATCH_SIZE)
    # The rate falls linearly and would be 0 after the last step (section 1.3).
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    model.train()
    for texts in batches(sentences, seed):
        loss = model.loss(tokenised(tokenizer, texts))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)
        optimiser.step()
        schedule.step()
        yield loss.item()
    model.eval()


def tokenised(tokenizer, texts: list[str]) -> dict[str, Tensor]:
    """Word pieces with [CLS] and [SEP], cut at MAX_LENGTH and padded to the longest row."""
    encoded = tokenizer(
        texts, truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt"
    )
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def main(name: str, file: str, seed: int = 0) -> None:
    """Train on the lines of a file, and print the loss of every step."""
    torch.manual_seed(seed)
    model, tokenizer = SimCSE(name), AutoTokenizer.from_pretrained(name)
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    sentences = [line.strip() for line in lines if line.strip()]
    for step, loss in enumerate(train(model, tokenizer, sentences, seed), 1):
        print(f"step {step}: {loss:.4f}")
    with torch.no_grad():
        first, second = model.embed(tokenised(tokenizer, ["A man eats.", "Somebody eats."]))
    print(f"cosine of the two sentences: {functional.cosine_similarity(first, second, dim=0):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
