"""What the references of several methods share: plain loops in float64, slopes, and batches."""

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from harness.plugin.kit import Kit
from harness.plugin.stage import Stage
from harness.training.feeding import StepBatches, made, stage_streams

KitFor = Callable[..., Kit]
Vectors = list[list[float]]


def cosine(left: list[float], right: list[float]) -> float:
    """The cosine of two vectors."""
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))


def info_nce(first: Vectors, second: Vectors, temperature: float) -> float:
    """The mean of -log softmax(cosines / temperature) at the own one of at least as many others."""
    total = 0.0
    for row, one in enumerate(first):
        terms = [math.exp(cosine(one, other) / temperature) for other in second]
        total -= math.log(terms[row] / sum(terms))
    return total / len(first)


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


def by_transformers(folder: Path, texts: list[str]) -> Vectors:
    """The state at [CLS] of each text alone, by a plain call of transformers."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        rows = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state for text in texts]
    return [list(row[0, 0].double().tolist()) for row in rows]
