"""The check that a plugin keeps the contract: it runs on the embedded tiny encoder.

This file checks a plugin as a whole and its embeddings; `stage_check` checks its stages.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import numpy as np
import torch
import transformers
from torch import Tensor

from harness.data.batching import TextBatch, pad
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.data.tokens import piece_ids
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.registry import Plugin
from harness.training.seeds import seed_everything
from harness.trials.stage_check import CHECK_BATCH_SIZE, result_or_problem, stage_problems
from harness.trials.trial import resolve

TINY = {
    "encoder": "tiny-bert",
    "suite": "graded",
    "sentences": "graded-sentences",
    "triplets": "graded-triplets",
    "pairs": "graded-pairs",
    "scored_pairs": "graded-scored-pairs",
    "corpus": "graded-sentences",
    "vectors": EMBEDDED / "datasets" / GRADED / "vectors.txt",
    "batch_size": CHECK_BATCH_SIZE,
}
"""Hyperparameter -> a value with which a plugin runs without a download"""
CHECKED_TEXTS = [
    "a short one",
    "the old man slowly reads a long book about the sea in the garden",
    "she sings",
]


def problems(name: str) -> list[str]:
    """One sentence for each thing that is wrong with the plugin called `name`.

    The list is empty for a plugin that keeps the contract. Raises UserError when there is no such
    plugin.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    plugin = registry.load(name)
    found: list[str] = []
    for setting in get_args(plugin.method.config_type.model_fields["setting"].annotation):
        found += [f"setting {setting}: {problem}" for problem in _problems(plugin, setting)]
    return found


def _problems(plugin: Plugin, setting: str) -> Iterator[str]:
    """What is wrong with the plugin under one setting."""
    fields = plugin.method.config_type.model_fields
    try:
        resolve(plugin, {"setting": setting})
        config = resolve(plugin, {"setting": setting} | _tiny(fields))
    except UserError as error:
        yield f"the defaults are refused by their own configuration: {error}"
        return
    seed_everything(0)
    kit = Kit(plugin.declare(config), torch.device("cpu"))
    method, problem = result_or_problem("__init__", kit.build)
    if problem:
        yield problem
        return
    stages, problem = result_or_problem("stages()", lambda: kit.declared.stages)
    if problem:
        yield problem
        return
    for stage in stages:
        yield from stage_problems(method, stage, kit)
    yield from _embed_problems(method)


def _tiny(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values of TINY that a configuration with these fields accepts.

    A field that allows a single value (a `Literal` with one member) keeps this value.
    """
    return {
        key: value
        for key, value in TINY.items()
        if key in fields and len(get_args(fields[key].annotation)) != 1
    }


@torch.inference_mode()
def _embed_problems(method: Method[Any]) -> Iterator[str]:
    """What is wrong with the embeddings, at test time and on dev."""
    method.eval()
    for name, embed in (("embed()", method.embed), ("embed_dev()", method.embed_dev)):
        problem = _embedding_problem(name, embed, method)
        if problem:
            yield problem
            return


def _embedding_problem(name: str, embed: Callable[[TextBatch], Tensor], method: Method[Any]) -> str:
    together, problem = result_or_problem(name, lambda: embed(_batch(method, CHECKED_TEXTS)))
    if problem:
        return problem
    if (
        not isinstance(together, Tensor)
        or together.dim() != 2
        or len(together) != len(CHECKED_TEXTS)
    ):
        rows, shape = len(CHECKED_TEXTS), _shape(together)
        return f"{name} must return (rows, hidden); for {rows} sentences it returned {shape}"
    if not together.isfinite().all():
        return f"{name} returns values that are not finite"
    if not embed(_batch(method, CHECKED_TEXTS)).equal(together):
        return f"{name} is random: the same batch gets other vectors the second time"
    alone = torch.cat([embed(_batch(method, [text])) for text in CHECKED_TEXTS])
    # Other batches are other matrix products, which may round the last digits differently.
    if (alone - together).abs().max() > 1e-4:
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
