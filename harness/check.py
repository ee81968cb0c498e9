"""Does a plugin keep the contract? Everything it declares and computes, on the embedded tiny encoder."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
import transformers
from torch import Tensor

from harness import registry
from harness.data.batching import Stream, TextBatch, pad
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.data.tokens import piece_ids
from harness.errors import UserError
from harness.kit import Kit
from harness.method import Method, Plugin, Stage
from harness.training.optimisers import optimiser, parameter_groups
from harness.training.parameters import trainable
from harness.training.reproducibility import seed_everything
from harness.trial import resolve

TINY = {
    "encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences", "triplets": "graded-triplets",
    "pairs": "graded-pairs", "corpus": "graded-sentences", "vectors": EMBEDDED / "datasets" / GRADED / "vectors.txt",
    "batch_size": 8,
}  # fmt: skip
SENTENCES = ["a short one", "the old man slowly reads a long book about the sea in the garden", "she sings"]


def problems(name: str) -> list[str]:
    """One sentence for each thing that is wrong; an empty list for a plugin that keeps the contract.

    Raises UserError when there is no plugin to check.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    plugin = registry.load(name)
    found: list[str] = []
    for setting in get_args(plugin.method.config_type.model_fields["setting"].annotation):
        found += [f"setting {setting}: {problem}" for problem in _problems(plugin, setting)]
    return found


def _problems(plugin: Plugin, setting: str) -> Iterator[str]:
    fields = plugin.method.config_type.model_fields
    try:
        resolve(plugin, {"setting": setting})
        config = resolve(plugin, {"setting": setting} | _tiny(fields))
    except UserError as error:
        yield f"the defaults are refused by their own configuration: {error}"
        return
    seed_everything(0)
    kit = Kit(plugin, config, torch.device("cpu"))
    method, problem = _tried("__init__", lambda: plugin.method(config, kit))
    if problem:
        yield problem
        return
    stages, problem = _tried("stages()", lambda: plugin.method.stages(config))
    if problem:
        yield problem
        return
    for stage in stages:
        yield from _stage_problems(method, stage, kit)
    yield from _embed_problems(method)


def _tiny(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values of TINY that a configuration with these fields takes; a field that allows one value alone keeps it."""
    return {key: value for key, value in TINY.items() if key in fields and len(get_args(fields[key].annotation)) != 1}


def _stage_problems(method: Method, stage: Stage, kit: Kit) -> Iterator[str]:
    where = f'stage "{stage.name}"'
    corpora, problem = _tried(f"{where}: data()", lambda: method.data(kit.config))
    if problem:
        yield problem
        return
    if not stage.streams or not set(stage.streams) <= set(corpora):
        yield f"{where}: its streams {sorted(stage.streams)} are not all in data() {sorted(corpora)}"
        return
    unknown = [field for field in stage.trains.values() if field not in type(kit.config).model_fields]
    if unknown:
        yield f'{where}: the learning rate "{unknown[0]}" is no field of the configuration'
        return
    groups, problem = _tried(where, lambda: trainable(method, stage))
    if problem:
        yield problem
        return
    frozen = {
        name: value.detach().clone()
        for name, value in method.named_parameters()
        if not value.requires_grad and not any(fnmatchcase(name, pattern) for pattern in stage.moves)
    }
    streams, problem = _tried(
        where, lambda: {name: _stream(method, kit, stage, corpora[name], size) for name, size in stage.streams.items()}
    )
    if problem:
        yield problem
        return
    updates = optimiser(stage.optimiser, parameter_groups(groups, kit.config), kit.config.weight_decay)
    method.train()
    for _ in range(3):
        batch = {name: next(stream) for name, stream in streams.items()}
        losses, problem = _tried(f"{where}: losses()", partial(method.losses, batch, stage))
        problem = problem or _loss_problem(losses, stage)
        if problem:
            yield f"{where}: {problem}" if not problem.startswith(where) else problem
            return
        torch.stack([losses[name].float() for name in stage.losses]).sum().backward()  # type: ignore[no-untyped-call]
        idle = [name for name, value in method.named_parameters() if value.requires_grad and value.grad is None]
        updates.step()
        updates.zero_grad()
    if len(idle) == sum(value.requires_grad for value in method.parameters()):
        yield f"{where}: no trainable parameter receives a gradient"
    moved = [name for name, value in method.named_parameters() if name in frozen and not value.equal(frozen[name])]
    if moved:
        yield f"{where}: the frozen parameter {moved[0]} moved"


def _loss_problem(losses: Any, stage: Stage) -> str:
    if not isinstance(losses, dict) or not set(stage.losses) <= set(losses):
        return f"losses() must return {sorted(stage.losses)}, it returned {sorted(losses) if losses else losses!r}"
    for name in stage.losses:
        value = losses[name]
        if not isinstance(value, Tensor) or value.dim() != 0:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            return f'the loss "{name}" is not a scalar tensor but {shape}'
        if not value.isfinite():
            return f'the loss "{name}" is {value.item()}'
        if not value.requires_grad:
            return f'the loss "{name}" has no gradient'
    return ""


def _stream(method: Method, kit: Kit, stage: Stage, corpus: str, size: int) -> Iterator[TextBatch]:
    tokens = kit.tokens(corpus, method.template)
    return iter(Stream(tokens, method.template, method.training_pieces, min(size, 8), seed=0, text=stage.text))


@torch.inference_mode()
def _embed_problems(method: Method) -> Iterator[str]:
    method.eval()
    for name, embed in (("embed()", method.embed), ("embed_dev()", method.embed_dev)):
        problem = _embedding_problem(name, embed, method)
        if problem:
            yield problem
            return


def _embedding_problem(name: str, embed: Callable[[TextBatch], Tensor], method: Method) -> str:
    together, problem = _tried(name, lambda: embed(_batch(method, SENTENCES)))
    if problem:
        return problem
    if not isinstance(together, Tensor) or together.dim() != 2 or len(together) != len(SENTENCES):
        return f"{name} must return (rows, hidden), for {len(SENTENCES)} sentences it returned {_shape(together)}"
    if not together.isfinite().all():
        return f"{name} returns values that are not finite"
    if not embed(_batch(method, SENTENCES)).equal(together):
        return f"{name} is random: the same batch twice gets different vectors"
    alone = torch.cat([embed(_batch(method, [text])) for text in SENTENCES])
    if (alone - together).abs().max() > 1e-4:
        return f"{name} depends on the batch: a sentence alone and beside longer ones gets different vectors"
    return ""


def _batch(method: Method, texts: list[str]) -> TextBatch:
    rows = [np.asarray(pieces, np.int64) for pieces in piece_ids(method.tokenizer, texts)]
    ids, mask = pad(rows, method.evaluation_template, method.tokenizer.pad_token_id)
    return TextBatch(ids, mask, torch.arange(len(texts)))


def _shape(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__


def _tried(what: str, call: Callable[[], Any]) -> tuple[Any, str]:
    """The result, or the sentence about the exception."""
    try:
        return call(), ""
    except Exception as error:
        return None, f"{what} raises {type(error).__name__}: {error}"
