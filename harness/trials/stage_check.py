"""The check of one stage of a plugin: it trains a few steps, then saves and loads the method."""

import copy
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from harness.device import random_state_kept
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.feeding import StepBatches, made
from harness.training.optimisers import optimiser, parameter_groups
from harness.training.parameters import trainable
from harness.training.stages import stage_streams

CHECK_BATCH_SIZE = 8
"""Items in a batch of the check; few, because a check should take less than a minute"""


def stage_problems(method: Method[Any], stage: Stage, kit: Kit) -> Iterator[str]:
    """One sentence for each thing that is wrong with a stage of a plugin.

    The stage is trained for a few steps, which changes the method.
    """
    where = f'stage "{stage.name}"'
    problem = _declaration_problem(method, stage, kit, where)
    if problem:
        yield problem
        return
    moving = (*stage.trains, *stage.moves)
    frozen = {
        name: value.detach().clone()
        for name, value in method.named_parameters()
        if not any(fnmatchcase(name, pattern) for pattern in moving)
    }
    run, problem = result_or_problem(where, lambda: _StageCheck(method, stage, kit))
    problem = problem or run.steps(3)
    if problem:
        yield problem if problem.startswith(where) else f"{where}: {problem}"
        return
    if not run.reached:
        yield f"{where}: no trainable parameter receives a gradient"
    after = dict(method.named_parameters())
    moved = [name for name, value in frozen.items() if not value.equal(after[name])]
    if moved:
        yield f"{where}: the frozen parameter {moved[0]} moved"
    yield from _state_problems(run, where)


def _declaration_problem(method: Method[Any], stage: Stage, kit: Kit, where: str) -> str:
    """A sentence about what is wrong with the declaration of the stage, or nothing."""
    corpora, problem = result_or_problem(f"{where}: corpora()", lambda: kit.declared.corpora)
    if problem:
        return problem
    if not stage.streams or not set(stage.streams) <= set(corpora):
        declared = sorted(corpora)
        return f"{where}: its streams {sorted(stage.streams)} are not all in corpora() {declared}"
    fields = type(kit.config).model_fields
    unknown = [field for field in stage.trains.values() if field not in fields]
    if unknown:
        return f'{where}: the configuration has no field "{unknown[0]}" for the learning rate'
    _, problem = result_or_problem(where, lambda: trainable(method, stage))
    return problem


class _StageCheck:
    """A method in the middle of a stage, with its optimiser and its streams."""

    def __init__(self, method: Method[Any], stage: Stage, kit: Kit) -> None:
        config = kit.config
        assert isinstance(config, TrainingConfig), "a method with stages has a TrainingConfig"
        self.method, self.stage, self.kit, self.config = method, stage, kit, config
        groups = parameter_groups(trainable(method, stage), config, stage.optimisation)
        self.optimiser = optimiser(stage.optimisation.optimiser, groups, config.weight_decay)
        streams = stage_streams(method, kit, stage, seed=0, batch_size=CHECK_BATCH_SIZE)
        self.batches = made(method, stage, streams, 0)
        self.reached = False
        """Whether some parameter got a gradient"""
        self.losses: dict[str, Tensor] = {}
        """Name -> loss of the last step"""

    def steps(self, count: int) -> str:
        """Train for `count` steps; a sentence about what is wrong, or nothing."""
        for _ in range(count):
            batch, problem = self.next()
            problem = problem or self.step(batch)
            if problem:
                return problem
        return ""

    def next(self) -> tuple[StepBatches, str]:
        """The next batch, and a sentence about what is wrong with it, or nothing."""
        before = torch.get_rng_state()
        batch, problem = result_or_problem("prepared()", lambda: next(self.batches))
        if not problem and not before.equal(torch.get_rng_state()):
            problem = "prepared() draws from torch's random numbers, which another thread may use"
        return batch, problem

    def step(self, batch: StepBatches) -> str:
        """Do one step on a batch; a sentence about what is wrong, or nothing."""
        self.method.train()
        losses, problem = result_or_problem(
            "losses()", lambda: self.method.losses(batch, self.stage)
        )
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
    """Check that a method which is saved and loaded into a fresh one takes the same next step.

    Where the step differs, the method has state outside of its parameters, its buffers and
    `get_extra_state`.
    """
    state = copy.deepcopy(run.method.state_dict())
    kept = copy.deepcopy(run.optimiser.state_dict())
    batch, problem = run.next()
    with random_state_kept(run.kit.device):
        fresh = run.kit.build()
    fresh.load_state_dict(state)
    again = _StageCheck(fresh, run.stage, run.kit)
    again.optimiser.load_state_dict(kept)
    # Both methods draw the same random numbers in their step.
    with random_state_kept(run.kit.device):
        problem = problem or run.step(batch)
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
            f"{where}: after saving and loading, the next step differs in {different[0]}: some "
            f"state is not in a parameter, a buffer or get_extra_state()"
        )


def _differs(one: Any, other: Any) -> bool:
    return not torch.equal(one, other) if isinstance(one, Tensor) else bool(one != other)


def _loss_problem(losses: Any, stage: Stage) -> str:
    if not isinstance(losses, dict) or not set(stage.losses) <= set(losses):
        returned = sorted(losses) if losses else repr(losses)
        return f"losses() must return {sorted(stage.losses)}, but it returned {returned}"
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


def result_or_problem(what: str, call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of the call and "", or None and a sentence about its exception.

    `what`: the subject of that sentence.
    """
    try:
        return call(), ""
    except Exception as error:  # a plugin may raise anything
        return None, f"{what} raises {type(error).__name__}: {error}"
