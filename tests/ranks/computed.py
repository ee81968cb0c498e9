"""Tensors of a training step of a method, by this process alone or by several ranks together."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard

from harness.device import in_precision, resolve_precision
from harness.ranks import has_ranks, rank_count
from harness.training.engines import shard, stage_optimiser
from harness.training.feeding import made, stage_streams
from harness.training.saved_state import is_sharded, readable
from tests.method_cases import mixed, without_dropout
from tests.ranks.rank import Computed, kit_of


def computed(name: str, values: dict[str, Any]) -> Computed:
    """Losses and gradients of the first steps of all stages, and test embeddings.

    They are named by stage, step and loss, or by `gradient` and stage, step and parameter.
    """
    kit = kit_of(name, values)
    method = without_dropout(kit).train()
    workers, precision = kit.config.workers, resolve_precision(kit.config.precision, kit.device)
    if kit.config.shards_weights and has_ranks():
        shard(method, kit.config, kit.device)
        assert all(is_sharded(parameter) for parameter in method.parameters())
    if kit.config.engine == "deepspeed" and kit.config.zero == 3 and has_ranks():
        assert not any(parameter.numel() for parameter in method.parameters())
        parts = {each.ds_tensor.numel() * workers - each.ds_numel for each in method.parameters()}
        assert parts <= {*range(workers)}  # its share of every one, rounded up
    tensors: Computed = {}
    for stage in kit.declared.stages:
        batches = made(method, stage, stage_streams(method, kit, stage, seed=0), 0)
        optimiser = stage_optimiser(stage, method, kit.config, 2, None)
        optimiser.peaks = [0.0 for _ in optimiser.peaks]  # so that both steps have the same weights
        for step in range(2):  # a queue of negatives is empty in the first one
            torch.manual_seed(step)
            with optimiser.accumulating(last=True):
                with in_precision(precision, kit.device):
                    losses = optimiser.losses(next(batches), stage)
                optimiser.backward(torch.stack(list(losses.values())).sum())
            tensors |= {f"{stage.name} {step} {loss}": each for loss, each in losses.items()}
            for parameter, gradient in gradients(method).items():
                tensors[f"gradient {stage.name} {step} {parameter}"] = gradient
            optimiser.step(step)
        if stage is not kit.declared.stages[-1]:
            optimiser.close()
    method.eval()
    with torch.no_grad(), readable(method):
        vectors = method.embed(mixed(kit, method))
    return {part: each.detach().clone() for part, each in (tensors | {"vectors": vectors}).items()}


def gradients(method: nn.Module) -> dict[str, Tensor]:
    """The whole gradient of every parameter that has one, also where it is sharded."""
    grads, rows = {}, {}
    for name, parameter in method.named_parameters():
        gradient = parameter.grad
        if isinstance(gradient, DTensor):
            assert gradient.placements == (Shard(0),)
            rows[name] = gradient.to_local()
            continue
        if hasattr(parameter, "_hp_mapping") or hasattr(parameter, "ds_id"):
            from deepspeed.utils import safe_get_full_grad

            gradient = safe_get_full_grad(parameter) if parameter.requires_grad else None
        if gradient is not None:
            grads[name] = gradient.detach().clone()
    if rows:  # all at once, as one by one they take a third of the time of these tests
        parts: list[dict[str, Tensor]] = [{} for _ in range(rank_count())]
        torch.distributed.all_gather_object(parts, rows)
        grads |= {name: torch.cat([part[name] for part in parts]) for name in rows}
    return grads
