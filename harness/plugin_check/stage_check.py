"""The check of one stage of a plugin: it trains a few steps, then saves and loads the method.

It also looks at what a plugin may remember outside of a checkpoint, and at the padding of batches.
"""

import copy
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.batching import Stream, TextBatch
from harness.errors import TrialFailure
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.plugin_check.faults import Fault, FaultFound, PluginLines, attempted
from harness.training.feeding import StepBatches, made, stage_streams
from harness.training.optimisers import optimiser, parameter_groups
from harness.training.parameters import trainable, trained_names, unmatched
from harness.training.seeds import random_states, set_random_states
from harness.training.steps import named_losses

CHECK_BATCH_SIZE = 8
"""Items in a batch of the check; few, because a check should take less than a minute"""
CHECK_STEPS = 3
SHORT_BATCH = 3
"""Items in the last batch of an epoch, as the check tries it; an odd number fits no groups"""
_MODULE_PARTS = frozenset(vars(nn.Module()))
"""Attributes of every module, `training` included"""
MORE_PADDING = 3
"""Columns"""
LOSS_TOLERANCE = 1e-3
"""Relative difference of a loss; other shapes are other matrix products, which round differently"""


def stage_faults(
    method: Method[Any], stage: Stage, kit: Kit, lines: PluginLines
) -> Iterator[Fault]:
    """Everything that is wrong with a stage of a plugin. Raises FaultFound for what ends the check.

    The stage is trained for a few steps, which changes the method.
    """
    declared = list(_declaration_faults(method, stage, kit, lines))
    yield from declared
    if declared:
        return
    moving = (*stage.trains, *stage.moves)
    frozen = {
        name: value.detach().clone()
        for name, value in method.named_parameters()
        if not any(fnmatchcase(name, pattern) for pattern in moving)
    }
    before = _hidden_state(method)
    run = attempted(lines, "the stage", lambda: _StageCheck(method, stage, kit, lines))
    run.steps(CHECK_STEPS)
    yield from _gradient_faults(method, stage, run, lines)
    after = method.named_parameters()
    moved = [name for name, value in after if name in frozen and not value.equal(frozen[name])]
    if moved:
        sentence = (
            f"the frozen parameter {moved[0]} moved; name it in `trains`, or in `moves` where the "
            f"method itself changes it, as a momentum encoder does"
        )
        yield Fault(sentence, lines.of_function("losses"))
    yield from _state_faults(run, before)
    if not stage.group:  # a short last batch is kept
        short = _StageCheck(method, stage, kit, lines, SHORT_BATCH)
        try:
            short.steps(1)
        except FaultFound as found:
            sentence = (
                f"in a last batch of {SHORT_BATCH} items: {found.fault.sentence}; allow for it, or "
                f"declare batches=Batches(full=True)"
            )
            yield replace(found.fault, sentence=sentence)
    name = _padding_matters(method, stage, run.streams) if stage.batches.text else ""
    if name:
        sentence = (
            f'the loss "{name}" depends on the padding of the batch: the same rows give another '
            f"one when they have more of it; use the attention mask"
        )
        yield Fault(sentence, lines.of_function("losses"))


def _declaration_faults(
    method: Method[Any], stage: Stage, kit: Kit, lines: PluginLines
) -> Iterator[Fault]:
    """The faults of the declaration of the stage."""
    corpora = attempted(lines, "corpora()", lambda: kit.declared.corpora)
    for stream in stage.streams:
        if stream not in corpora:
            sentence = f'it reads the stream "{stream}", which corpora() {sorted(corpora)} lacks'
            yield Fault(sentence, lines.of_text(stream, "stages"))
    for field in stage.trains.values():
        if field not in type(kit.config).model_fields:
            sentence = f'the configuration has no field "{field}" for the learning rate'
            yield Fault(sentence, lines.of_text(field, "stages"))
    for pattern in unmatched(method, stage):
        sentence = f'the pattern "{pattern}" in `trains` matches no parameter of the method'
        yield Fault(sentence, lines.of_text(pattern, "stages"))


def _gradient_faults(
    method: Method[Any], stage: Stage, run: "_StageCheck", lines: PluginLines
) -> Iterator[Fault]:
    """Parameters that are to train and that no loss has reached in any step."""
    trained = trained_names(method, stage)
    idle = [name for name in trained if name not in run.reached]
    if idle:
        more = f" and {len(idle) - 1} more" if len(idle) > 1 else ""
        sentence = (
            f"the parameter {idle[0]}{more} of {len(trained)} would train, but gets no gradient"
        )
        yield Fault(sentence, lines.of_function("losses"))


class _StageCheck:
    """A method in the middle of a stage, with its optimiser and its streams."""

    def __init__(
        self,
        method: Method[Any],
        stage: Stage,
        kit: Kit,
        lines: PluginLines,
        batch_size: int = CHECK_BATCH_SIZE,
    ) -> None:
        config = kit.config
        assert isinstance(config, TrainingConfig), "a method with stages has a TrainingConfig"
        self.method, self.stage, self.kit, self.lines = method, stage, kit, lines
        groups = parameter_groups(trainable(method, stage), config, stage.optimisation)
        self.optimiser = optimiser(stage.optimisation.optimiser, groups, config.weight_decay)
        self.streams = stage_streams(method, kit, stage, seed=0, batch_size=batch_size)
        self.batches = made(method, stage, self.streams, 0)
        self.done = 0
        """Steps"""
        self.reached: set[str] = set()
        """Names of the parameters that have got a gradient"""
        self.losses: dict[str, Tensor] = {}
        """Name -> loss of the last step"""

    def steps(self, count: int) -> None:
        """Train for `count` steps. Raises FaultFound, as `next` and `step`."""
        for _ in range(count):
            self.step(self.next())

    def next(self) -> StepBatches:
        """The next batch."""
        before = random_states()
        batch: StepBatches = attempted(self.lines, "prepared()", lambda: next(self.batches))
        if before != random_states():
            sentence = "prepared() draws from the random numbers that training draws from, too"
            raise FaultFound(Fault(sentence, self.lines.of_function("prepared")))
        return batch

    def step(self, batch: StepBatches) -> None:
        """Do one step on a batch."""
        self.method.train()
        losses = attempted(self.lines, "losses()", lambda: self.method.losses(batch, self.stage))
        if problem := _loss_problem(losses, self.stage):
            raise FaultFound(Fault(problem, self.lines.of_function("losses")))
        for name, weight in self.stage.losses.items():
            if callable(weight):
                subject = f'the weight of the loss "{name}"'
                attempted(self.lines, subject, partial(weight, self.done))
        self.done += 1
        total = torch.stack([losses[name].float() for name in self.stage.losses]).sum()
        attempted(self.lines, "the backward pass of losses()", total.backward)
        parameters = self.method.named_parameters()
        self.reached |= {name for name, value in parameters if value.grad is not None}
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.losses = {name: losses[name].detach() for name in self.stage.losses}


def _state_faults(run: _StageCheck, before: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that a method which is saved and loaded into a fresh one is the same method.

    It must take the same next step, and no attribute that training has changed may be another.
    `before`: the hidden state before the first step.
    """
    state = copy.deepcopy(run.method.state_dict())
    if others := [value for value in state.values() if not isinstance(value, Tensor)]:
        sentence = f"get_extra_state() must return a tensor, and not {type(others[0]).__name__}"
        yield Fault(sentence, run.lines.of_function("get_extra_state"))
        return
    kept = copy.deepcopy(run.optimiser.state_dict())
    states = random_states()
    fresh = run.kit.build()
    try:
        fresh.load_state_dict(state)
    except RuntimeError as error:  # torch names each entry on a line, the first one on the second
        entry = str(error).splitlines()[1].strip(" .\t")
        sentence = (
            f"its saved state does not fit into a fresh method: {entry}; __init__ makes every "
            f"parameter and buffer, and losses() keeps their shapes"
        )
        yield Fault(sentence, run.lines.of_function("losses"))
        return
    set_random_states(states)
    after, mine = _hidden_state(run.method), _hidden_state(fresh)
    again = _StageCheck(fresh, run.stage, run.kit, run.lines)
    again.optimiser.load_state_dict(kept)
    # A variable of a file is the same one for both methods.
    hidden = [
        name
        for name in before.keys() & after.keys()
        if before[name] != after[name]
        and (name.startswith("the variable") or mine.get(name) != after[name])
    ]
    try:
        batch = run.next()
        # Both methods draw the same random numbers in their step.
        states = random_states()
        run.step(batch)
        set_random_states(states)
        again.step(batch)
    except FaultFound as found:
        sentence = f"after its state was saved and loaded: {found.fault.sentence}"
        yield replace(found.fault, sentence=sentence)
        return
    different = [name for name, loss in run.losses.items() if not loss.equal(again.losses[name])]
    here, there = run.method.state_dict(), fresh.state_dict()
    different += [name for name, value in here.items() if not value.equal(there[name])]
    rule = "some state is not in a parameter, a buffer or get_extra_state()"
    if hidden:
        name = hidden[0].removeprefix("self.").rpartition(".")[2]
        place = run.lines.of_attribute(name.removeprefix("the variable "))
        yield Fault(f"training changes {hidden[0]}, which no checkpoint holds: {rule}", place)
    elif different:
        sentence = f"after saving and loading, the next step differs in {different[0]}: {rule}"
        yield Fault(sentence, run.lines.of_function("losses"))


def _loss_problem(losses: Any, stage: Stage) -> str:
    try:
        named = named_losses(losses, stage)
    except TrialFailure as problem:
        return str(problem)
    for name, value in named.items():
        if not value.isfinite():
            return f'the loss "{name}" is {value.item()}'
        if not value.requires_grad:
            return f'the loss "{name}" has no gradient'
    return ""


def _hidden_state(method: nn.Module) -> dict[str, Any]:
    """Name -> value, of all that may be state and is no parameter and no buffer.

    These are the numbers, tensors, sequences and generators among the attributes of the modules
    whose classes the plugin defines, and among the variables of its files. Memos (mappings) and
    values that a module makes at their first use are not state.
    """
    home = type(method).__module__
    state: dict[str, Any] = {}
    for path, module in method.named_modules():
        if _in(type(module).__module__, home):
            names = vars(module).keys() - _MODULE_PARTS
            state |= {
                ".".join(filter(None, ("self", path, name))): _value(vars(module)[name])
                for name in sorted(names)
            }
    for name, file in list(sys.modules.items()):
        if _in(name, home):
            variables = {each: _value(value) for each, value in vars(file).items()}
            state |= {f"the variable {each}": value for each, value in variables.items()}
    return {name: value for name, value in state.items() if value is not None}


def _in(module: str, home: str) -> bool:
    return module == home or module.startswith(f"{home}.")


def _value(value: Any) -> Any:
    """The value as something that can be compared; None for what is no state."""
    if isinstance(value, Tensor):
        return value.detach().cpu().double().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | deque):
        return [_value(each) for each in value]
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    return None


def _padding_matters(method: Method[Any], stage: Stage, streams: Mapping[str, Stream]) -> str:
    """The name of a loss that changes when the rows of a batch get more padding; "" for none.

    Dropout is off. A loss that is random all the same is not looked at, because its random numbers
    may depend on the shape of the batch; nor are losses that only a training can compute.
    """
    batch = {name: next(stream.batches()) for name, stream in streams.items()}
    # The longest row of the shuffled batch is the same for both, because it stands for the padding
    # over which a released code averages (diffcse.md, section 1.2).
    wider = {name: _wider(each) for name, each in batch.items()}
    lengths = {name: each.shuffled_length for name, each in wider.items()}
    batch = {name: replace(each, shuffled_length=lengths[name]) for name, each in batch.items()}
    try:
        plain = _losses(method, batch, stage)
        torch.rand(1)
        again, padded = _losses(method, batch, stage, draw=1), _losses(method, wider, stage)
    # Code of a plugin may raise anything. In training it has run without an error; here it may
    # miss the mode or a gradient, or have kept what cannot be copied, and nothing is compared.
    except Exception:
        return ""
    for name, loss in plain.items():
        allowed = LOSS_TOLERANCE * max(1e-3, abs(loss))
        if abs(again[name] - loss) <= allowed < abs(padded[name] - loss):
            return name
    return ""


def _wider(batch: TextBatch) -> TextBatch:
    padding = (0, MORE_PADDING)
    ids = functional.pad(batch.input_ids, padding, value=int(batch.input_ids[0, -1]))
    mask = functional.pad(batch.attention_mask, padding)
    length = max(batch.shuffled_length, ids.shape[1])
    return replace(batch, input_ids=ids, attention_mask=mask, shuffled_length=length)


def _losses(
    method: Method[Any], batch: Mapping[str, TextBatch], stage: Stage, draw: int = 0
) -> dict[str, float]:
    """The losses of a copy of the method, so that its state stays; `draw`: of random numbers."""
    states = random_states()
    try:
        torch.manual_seed(draw)
        twin = copy.deepcopy(method).eval()
        with torch.no_grad():
            losses = twin.losses(twin.prepared(batch, stage), stage)
        return {name: float(losses[name]) for name in stage.losses}
    finally:
        set_random_states(states)
