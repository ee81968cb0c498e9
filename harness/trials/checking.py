"""Does a plugin keep the contract? Everything it declares and computes, on the embedded tiny encoder."""

import copy
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, get_args

import numpy as np
import torch
import transformers
from torch import Tensor

from harness.data.batching import TextBatch, pad
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.data.tokens import piece_ids
from harness.device import random_state_kept
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.registry import Plugin
from harness.plugin.stage import Stage
from harness.training.loop import stage_streams
from harness.training.optimisers import optimiser, parameter_groups
from harness.training.parameters import trainable
from harness.training.seeds import seed_everything
from harness.trials.trial import resolve

TINY_BATCH = 8
TINY = {
    "encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences", "triplets": "graded-triplets",
    "pairs": "graded-pairs", "corpus": "graded-sentences", "vectors": EMBEDDED / "datasets" / GRADED / "vectors.txt",
    "batch_size": TINY_BATCH,
}  # fmt: skip
CHECKED_TEXTS = [
    "a short one",
    "the old man slowly reads a long book about the sea in the garden",
    "she sings",
]


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
    kit = Kit(plugin.declare(config), torch.device("cpu"))
    method, problem = _tried("__init__", kit.build)
    if problem:
        yield problem
        return
    stages, problem = _tried("stages()", lambda: kit.declared.stages)
    if problem:
        yield problem
        return
    for stage in stages:
        yield from _stage_problems(method, stage, kit)
    yield from _embed_problems(method)


def _tiny(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values of TINY that a configuration with these fields takes; a field that allows one value alone keeps it."""
    return {
        key: value
        for key, value in TINY.items()
        if key in fields and len(get_args(fields[key].annotation)) != 1
    }


def _stage_problems(method: Method[Any], stage: Stage, kit: Kit) -> Iterator[str]:
    where = f'stage "{stage.name}"'
    corpora, problem = _tried(f"{where}: corpora()", lambda: kit.declared.corpora)
    if problem:
        yield problem
        return
    if not stage.streams or not set(stage.streams) <= set(corpora):
        declared = sorted(corpora)
        yield f"{where}: its streams {sorted(stage.streams)} are not all in corpora() {declared}"
        return
    fields = type(kit.config).model_fields
    unknown = [field for field in stage.trains.values() if field not in fields]
    if unknown:
        yield f'{where}: the configuration has no field "{unknown[0]}" for the learning rate'
        return
    _, problem = _tried(where, lambda: trainable(method, stage))
    if problem:
        yield problem
        return
    moving = (*stage.trains, *stage.moves)
    frozen = {
        name: value.detach().clone()
        for name, value in method.named_parameters()
        if not any(fnmatchcase(name, pattern) for pattern in moving)
    }
    run, problem = _tried(where, lambda: _StageCheck(method, stage, kit))
    problem = problem or run.steps(3)
    if problem:
        yield problem if problem.startswith(where) else f"{where}: {problem}"
        return
    if not run.reached:
        yield f"{where}: no trainable parameter receives a gradient"
    moved = [
        name
        for name, value in method.named_parameters()
        if name in frozen and not value.equal(frozen[name])
    ]
    if moved:
        yield f"{where}: the frozen parameter {moved[0]} moved"
    yield from _state_problems(run, where)


class _StageCheck:
    """A method in the middle of a stage: its optimiser, its streams, how far it is."""

    def __init__(self, method: Method[Any], stage: Stage, kit: Kit) -> None:
        config = kit.config
        assert isinstance(config, TrainingConfig), "a method with stages has a TrainingConfig"
        self.method, self.stage, self.kit, self.config = method, stage, kit, config
        groups = parameter_groups(trainable(method, stage), config)
        self.optimiser = optimiser(stage.optimisation.optimiser, groups, config.weight_decay)
        streams = stage_streams(method, kit, stage, seed=0, batch_size=TINY_BATCH)
        self.feeds = {name: iter(stream) for name, stream in streams.items()}
        self.reached = False
        """Whether some parameter got a gradient"""
        self.losses: dict[str, Tensor] = {}
        """Of the last step"""

    def steps(self, count: int) -> str:
        """Train for so many steps; a sentence about what is wrong, or nothing."""
        for _ in range(count):
            problem = self.step({name: next(feed) for name, feed in self.feeds.items()})
            if problem:
                return problem
        return ""

    def step(self, batch: dict[str, TextBatch]) -> str:
        """One step on a batch; a sentence about what is wrong, or nothing."""
        self.method.train()
        losses, problem = _tried("losses()", lambda: self.method.losses(batch, self.stage))
        problem = problem or _loss_problem(losses, self.stage)
        if problem:
            return problem
        total = torch.stack([losses[name].float() for name in self.stage.losses]).sum()
        total.backward()  # type: ignore[no-untyped-call]
        gradients = [value.grad for value in self.method.parameters() if value.requires_grad]
        self.reached |= any(gradient is not None for gradient in gradients)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.losses = {name: losses[name].detach() for name in self.stage.losses}
        return ""


def _state_problems(run: _StageCheck, where: str) -> Iterator[str]:
    """A method that is saved, loaded into a fresh one and trained on must take the same step.

    What differs is state outside of parameters, buffers and `get_extra_state`.
    """
    state = copy.deepcopy(run.method.state_dict())
    kept = copy.deepcopy(run.optimiser.state_dict())
    batch = {name: next(feed) for name, feed in run.feeds.items()}
    with random_state_kept(run.kit.device):
        fresh = run.kit.build()
    fresh.load_state_dict(state)
    again = _StageCheck(fresh, run.stage, run.kit)
    again.optimiser.load_state_dict(kept)
    with random_state_kept(run.kit.device):
        problem = run.step(batch)
    problem = problem or again.step(batch)
    if problem:
        yield f"{where}: after its state was saved and loaded: {problem}"
        return
    different = [name for name, loss in run.losses.items() if not loss.equal(again.losses[name])]
    there = fresh.state_dict()
    different += [
        name for name, value in run.method.state_dict().items() if _differs(value, there[name])
    ]
    if different:
        yield (
            f"{where}: after saving and loading, the next step differs in {different[0]}: some state "
            f"is not in a parameter, a buffer or get_extra_state()"
        )


def _differs(one: Any, other: Any) -> bool:
    return not torch.equal(one, other) if isinstance(one, Tensor) else bool(one != other)


def _loss_problem(losses: Any, stage: Stage) -> str:
    if not isinstance(losses, dict) or not set(stage.losses) <= set(losses):
        returned = sorted(losses) if losses else repr(losses)
        return f"losses() must return {sorted(stage.losses)}, it returned {returned}"
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


@torch.inference_mode()
def _embed_problems(method: Method[Any]) -> Iterator[str]:
    method.eval()
    for name, embed in (("embed()", method.embed), ("embed_dev()", method.embed_dev)):
        problem = _embedding_problem(name, embed, method)
        if problem:
            yield problem
            return


def _embedding_problem(name: str, embed: Callable[[TextBatch], Tensor], method: Method[Any]) -> str:
    together, problem = _tried(name, lambda: embed(_batch(method, CHECKED_TEXTS)))
    if problem:
        return problem
    if (
        not isinstance(together, Tensor)
        or together.dim() != 2
        or len(together) != len(CHECKED_TEXTS)
    ):
        return f"{name} must return (rows, hidden), for {len(CHECKED_TEXTS)} sentences it returned {_shape(together)}"
    if not together.isfinite().all():
        return f"{name} returns values that are not finite"
    if not embed(_batch(method, CHECKED_TEXTS)).equal(together):
        return f"{name} is random: the same batch twice gets different vectors"
    alone = torch.cat([embed(_batch(method, [text])) for text in CHECKED_TEXTS])
    if (alone - together).abs().max() > 1e-4:
        return f"{name} depends on the batch: a sentence alone and beside longer ones gets different vectors"
    return ""


def _batch(method: Method[Any], texts: list[str]) -> TextBatch:
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
