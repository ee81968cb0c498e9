"""The check of a plugin's embeddings, and of the way that evaluation takes to them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.data.batching import TextBatch, pad
from harness.data.tokens import piece_ids
from harness.encoders.backbone import Encoder
from harness.evaluation.embedder import Embedder
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.trials.faults import Fault, PluginLines, result_or_fault

CHECKED_TEXTS = [
    "a short one",
    "the old man slowly reads a long book about the sea in the garden",
    "she sings",
]
LONG_TEXT = "the old man reads " * 300
"""Longer than the positions of most encoders"""
VECTOR_TOLERANCE = 1e-4
"""Of a value. Other batches are other matrix products, which may round the last digits otherwise"""


def evaluation_faults(method: Method[Any], kit: Kit, lines: PluginLines) -> Iterator[Fault]:
    """What is wrong with the embeddings, at test time and on dev."""
    method.eval()
    fault = _longest_fault(method, lines)
    if fault:
        yield fault
        return
    with torch.inference_mode():
        for name, embed in (("embed", method.embed), ("embed_dev", method.embed_dev)):
            fault = _embedding_fault(name, embed, method, lines)
            if fault:
                yield fault
                return
    embedder = Embedder(method, kit)
    for dev in (False, True):
        what = f"the evaluation on {'dev' if dev else 'test'}"
        call = partial(embedder, [*CHECKED_TEXTS, LONG_TEXT], dev=dev)
        _, fault = result_or_fault(lines, what, call)
        if fault:
            yield fault
            return


def _longest_fault(method: Method[Any], lines: PluginLines) -> Fault | None:
    """Evaluation asks for `longest`, which looks at `self.encoder` unless a plugin writes it."""
    inherits = type(method).longest is Method.longest
    if inherits and not isinstance(getattr(method, "encoder", None), Encoder):
        kept = [name for name, part in method.named_modules() if isinstance(part, Encoder)]
        found = f"this method keeps its encoder as self.{kept[0]}" if kept else "it has none"
        sentence = f"evaluation reads self.encoder, but {found}; rename it, or write `longest`"
        place = lines.of_assignment(kept[0]) if kept else lines.of_class("Method")
        return Fault(sentence, place)
    _, fault = result_or_fault(lines, "longest", lambda: method.longest)
    return fault


def _embedding_fault(
    name: str, embed: Callable[[TextBatch], Tensor], method: Method[Any], lines: PluginLines
) -> Fault | None:
    together, fault = result_or_fault(
        lines, f"{name}()", lambda: embed(_batch(method, CHECKED_TEXTS))
    )
    if fault:
        return fault
    problem = _problem(f"{name}()", together, embed, method)
    return Fault(problem, lines.of_function(name)) if problem else None


def _problem(
    name: str, together: Any, embed: Callable[[TextBatch], Tensor], method: Method[Any]
) -> str:
    rows = len(CHECKED_TEXTS)
    if not isinstance(together, Tensor) or together.dim() != 2 or len(together) != rows:
        shape = _shape(together)
        return f"{name} must return (rows, hidden); for {rows} sentences it returned {shape}"
    if not together.isfinite().all():
        return f"{name} returns values that are not finite"
    if not embed(_batch(method, CHECKED_TEXTS)).equal(together):
        return f"{name} is random: the same batch gets other vectors the second time"
    alone = torch.cat([embed(_batch(method, [text])) for text in CHECKED_TEXTS])
    if (alone - together).abs().max() > VECTOR_TOLERANCE:
        return (
            f"{name} depends on the batch: a sentence gets different vectors when it is alone and "
            f"when it is beside longer ones"
        )
    return ""


def _batch(method: Method[Any], texts: list[str]) -> TextBatch:
    rows = [np.asarray(pieces, np.int64) for pieces in piece_ids(method.tokenizer, texts)]
    ids, mask = pad(rows, method.evaluation_template, method.tokenizer.pad_token_id)
    return TextBatch(ids, mask, torch.arange(len(texts)))


def _shape(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
