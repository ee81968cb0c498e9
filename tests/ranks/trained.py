"""The weights after several steps: those of an engine, and those of one process in plain torch."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.device import in_precision
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.stage import Stage
from harness.ranks import has_ranks
from harness.training.engines import shard, stage_optimiser
from harness.training.feeding import made, stage_streams
from harness.training.loop import restore, snapshot
from harness.training.parameters import trainable
from harness.training.progress import GRADIENT_NORM, Outcome
from harness.training.saved_state import load_weights, whole
from harness.training.steps import Steps
from tests.method_cases import without_dropout
from tests.ranks.rank import Computed, kit_of

STEPS = 4
"""Steps of a stage"""
EPSILON = torch.finfo(torch.float32).eps
"""Relative rounding error of a number"""


class Gathered(TorchDispatchMode):
    """Counts the bytes that this rank gets when ranks gather something; steps take longer."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "allgather" in str(func).replace("_", ""):
            self.bytes += max(each.nbytes for each in tree_leaves(args) if torch.is_tensor(each))
        return func(*args, **(kwargs or {}))


def trained_in_three_ways(name: str, values: dict[str, Any]) -> Computed:
    """Results of `trained`, with these words in front of the names.

    `exact`: no weight is sent rounded. `rounded`: the weights are where the precision
    allows it. `stopped`: so, too, and a checkpoint goes on after half of the steps. `gathered` of
    the first two is the number of bytes that this rank gets of the others.
    """
    results: Computed = {}
    for way in ("exact", "rounded", "stopped"):
        gathered = Gathered()
        exact, stops = way == "exact", way == "stopped"
        computed = trained(name, values, gathered, stops=stops, exact=exact)
        computed["gathered"] = torch.tensor(gathered.bytes)
        results |= {f"{way} {part}": value for part, value in computed.items()}
    return results


def trained(
    name: str,
    values: dict[str, Any],
    during: AbstractContextManager[object] | None = None,
    *,
    count: int = STEPS,
    stops: bool = False,
    exact: bool = False,
) -> Computed:
    """All parameters after the last step, and the `norms` of the gradients of all steps.

    `during`: is entered for the steps alone. `count`: steps of a stage. `stops`: whether another
    method and another optimiser go on from a checkpoint after half of the steps of a stage.
    `exact`: whether the method asks for bf16 itself, so that weights travel in float32.
    """
    kit = kit_of(name, values | ({"precision": "fp32"} if exact else {}))
    method = _placed(kit, exact=exact)
    outcome, steps = Outcome(), Steps(kit, seed=0)
    for stage in kit.declared.stages:
        optimiser = stage_optimiser(stage, method, kit.config, count, None)
        batches = made(method, stage, stage_streams(method, kit, stage, seed=0), 0)
        with during or nullcontext():
            for step in range(count):
                if stops and step == count // 2:
                    steps.synchronise(outcome)
                    names = [each for each, _ in method.named_parameters()]
                    saved = snapshot(method, names, optimiser, outcome)
                    optimiser.close()
                    method = _placed(kit)
                    load_weights(method, saved.weights)
                    optimiser = stage_optimiser(stage, method, kit.config, count, None)
                    outcome = restore(saved, method, names, optimiser)
                steps.run(outcome, optimiser, batches, step)
        steps.synchronise(outcome)
        weights = {each: whole(value).clone() for each, value in method.named_parameters()}
        optimiser.close()
    norms = [each["value"] for each in outcome.curves if each["metric"] == GRADIENT_NORM]
    return weights | {"norms": torch.tensor(norms)}


def trained_for_long(name: str, values: dict[str, Any]) -> Computed:
    """Results of `trained` after eight steps of a stage."""
    return trained(name, values, count=8)


def _placed(kit: Kit, *, exact: bool = False) -> Any:
    """The method, of which each rank has its part where weights are sharded."""
    method = without_dropout(kit).train()
    if exact:
        kind = type(method)

        def losses(self: Any, *arguments: Any) -> dict[str, torch.Tensor]:
            with in_precision("bf16", kit.device):
                return kind.losses(self, *arguments)

        method.__class__ = type("Rounding", (kind,), {"losses": losses})
    if isinstance(kit.config, TrainingConfig) and kit.config.shards_weights and has_ranks():
        shard(method, kit.config, kit.device)
    return method


def trained_in_plain_torch(name: str, values: dict[str, Any]) -> Computed:
    """The same by a loop with torch's own functions, in this process alone and without chunks.

    And `undecided`: of all weights, whether the gradient of a step is a rounding error of zero, out
    of which Adam makes a step of any size, (weights,) bool. That of the biases of the keys is,
    because they change no attention.
    """
    kit = kit_of(name, values | {"engine": "single", "workers": 1, "chunk_size": None})
    method, norms = without_dropout(kit).train(), []
    undecided = {
        name: torch.full_like(value, name.endswith("key.bias"), dtype=torch.bool)
        for name, value in method.named_parameters()
    }
    for stage in kit.declared.stages:
        rates = {field: getattr(kit.config, field) for field in stage.trains.values()}
        groups = [
            {
                "params": [each for each in members if (each.dim() == 1) == plain],
                "lr": rates[field],
                "weight_decay": 0.0 if plain else kit.config.weight_decay,
            }
            for field, members in trainable(method, stage).items()
            for plain in (True, False)
        ]
        optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / STEPS)
        batches = made(method, stage, stage_streams(method, kit, stage, seed=0), 0)
        for _ in range(STEPS):
            for _ in range(stage.accumulation):
                with in_precision(kit.config.precision, kit.device):
                    losses = method.losses(next(batches), stage)
                (_loss(losses, stage) / stage.accumulation).backward()
            for name, value in method.named_parameters():
                if value.grad is not None:
                    size = value.grad.abs()
                    undecided[name] |= (size > 0) & (size < EPSILON * size.max())
            parameters = [each for group in groups for each in group["params"]]
            norms.append(nn.utils.clip_grad_norm_(parameters, kit.config.gradient_clipping).item())
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
    found = {each: value.detach().clone() for each, value in method.named_parameters()}
    flat = torch.cat([each.flatten() for each in undecided.values()])
    return found | {"norms": torch.tensor(norms), "undecided": flat}


def _loss(losses: dict[str, torch.Tensor], stage: Stage) -> torch.Tensor:
    total = torch.zeros(())
    for name, weight in stage.losses.items():
        assert isinstance(weight, float)
        total = total + weight * losses[name].float()
    return total
