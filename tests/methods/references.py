"""What the references of several methods share: plain loops in float64, slopes, and batches."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.plugin.kit import Kit
from harness.plugin.stage import Stage
from harness.training.feeding import StepBatches, made, stage_streams
from harness.training.loop import Trainer
from harness.training.parameters import trainable
from tests.kits import Calls

KitFor = Callable[..., Kit]
Vectors = list[list[float]]


def build(kit: Kit) -> Any:
    """The method as it begins its first stage."""
    torch.manual_seed(0)
    method = kit.build()
    trainable(method, kit.declared.stages[0])
    return method.train()


def cosine(left: list[float], right: list[float]) -> float:
    """The cosine of two vectors."""
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))


def info_nce(first: ArrayLike, second: ArrayLike, temperature: float) -> float:
    """The mean of -log softmax(cosines / temperature) at the own one of at least as many others.

    first: (N, H); second: (M, H), of which those of the own ones come first.
    """
    total, candidates = 0.0, np.asarray(second, np.float64).tolist()
    anchors = np.asarray(first, np.float64).tolist()
    for row, one in enumerate(anchors):
        terms = [math.exp(cosine(one, other) / temperature) for other in candidates]
        total -= math.log(terms[row] / sum(terms))
    return total / len(anchors)


def has_slopes(
    gradient: Tensor,
    loss: Callable[[Tensor], float],
    at: Tensor,
    places: Iterable[tuple[int, ...]] = ((0, 0), (2, 3), (4, 1)),
    **tolerances: float,
) -> None:
    """Check a gradient at some places against differences of a loss that is a plain loop."""
    for place in places:
        step = at.new_zeros(at.shape)
        step[place] = 1e-6
        slope = (loss(at + step) - loss(at - step)) / 2e-6
        expected = pytest.approx(slope, **{"rel": 1e-4, "abs": 1e-8, **tolerances})
        assert float(gradient[place]) == expected, place


def batches_of(kit: Kit, method: Any) -> tuple[Stage, Iterator[StepBatches]]:
    """The only stage of a method, and its prepared batches."""
    (stage,) = kit.declared.stages
    return stage, made(method, stage, stage_streams(method, kit, stage, seed=0), 0)


def watched(method: nn.Module, modules: str) -> list[Calls]:
    """The calls of these modules of a method from now on."""
    return [Calls(method.get_submodule(name)) for name in modules.split()]


def array(tensor: Tensor) -> np.ndarray:
    """The numbers of a tensor in float64, without its gradient."""
    return tensor.detach().double().numpy()


def alone(batch: TextBatch) -> list[Tensor]:
    """The ids of each row without its padding."""
    lengths = batch.attention_mask.sum(dim=1)
    return [ids[:length] for ids, length in zip(batch.input_ids, lengths, strict=True)]


def cross_entropies(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Logits (..., classes) and labels (...) -> cross entropies (...)."""
    own = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return np.asarray(np.log(np.exp(logits).sum(axis=-1)) - own)


def by_transformers(folder: Path, texts: list[str]) -> Vectors:
    """The state at [CLS] of each text alone, by a plain call of transformers."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        rows = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state for text in texts]
    return [list(row[0, 0].double().tolist()) for row in rows]


def first_texts(kit: Kit, method: Any, corpus: str, size: int = 6) -> TextBatch:
    """The first batch of so many items of a corpus."""
    options = StreamOptions(limit=30, batch_size=size, seed=0)
    return next(iter(Stream(kit.tokens(corpus), method.template, options)))


def first_batch(kit: Kit, method: Any, stream: str = "contrastive", size: int = 6) -> TextBatch:
    """The first batch of so many items of a stream, with padding."""
    options = StreamOptions(limit=method.training_pieces, batch_size=size, seed=0)
    tokens = kit.tokens(kit.declared.corpora[stream], method.template)
    endless = Stream(tokens, method.template, options)
    return next(
        batch for batch in endless if len(batch.items) == size and not batch.attention_mask.all()
    )


def first_batches(kit: Kit, method: Any, size: int = 6) -> dict[str, TextBatch]:
    """The first batch of every stream, as `first_batch` gives it."""
    return {stream: first_batch(kit, method, stream, size) for stream in kit.declared.corpora}


def first_losses(kit: Kit, method: Any, stage: int = 0) -> dict[str, Tensor]:
    """The losses of the first batches in the stage with this number."""
    given = first_batches(kit, method)
    found: dict[str, Tensor] = method.losses(given, method.stages(kit.config)[stage])
    return found


def moved(kit: Kit, method: Any) -> set[str]:
    """Train a method; the names of the parameters that have changed then."""
    before = {name: value.detach().clone() for name, value in method.named_parameters()}
    scores = itertools.count()  # so that the last step is the best one
    Trainer(method, kit, 0, lambda: float(next(scores)), lambda _: None).run()
    return {name for name, value in method.named_parameters() if not value.equal(before[name])}
