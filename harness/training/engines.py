"""The engine of a training: where its weights are, who computes its gradients and its steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

from harness.plugin.config import MethodConfig, TrainingConfig
from harness.plugin.engine import EngineName
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.ranks import has_ranks
from harness.training.data_parallel import DataParallelOptimiser
from harness.training.optimisers import StageOptimiser
from harness.training.sharded import readable
from harness.training.zero import ZeroOptimiser, passes, shard

ENGINES: dict[EngineName, type[StageOptimiser]] = {
    "single": StageOptimiser,
    "ddp": DataParallelOptimiser,
    "deepspeed": ZeroOptimiser,
}


def placed(kit: Kit) -> Method[Any]:
    """The method of a kit, on the kit's device; of sharded weights, each rank has its part."""
    method: Method[Any] = kit.build()
    if _shards(kit.config):
        shard(method, kit.config, kit.device)
    return method


@contextmanager
def before_training(method: Method[Any], kit: Kit) -> Iterator[None]:
    """In the block, a method that no stage has trained yet can embed sentences."""
    if not _shards(kit.config):
        yield
        return
    with passes(method, kit.config), readable(method):
        yield


def _shards(config: MethodConfig) -> TypeGuard[TrainingConfig]:
    return isinstance(config, TrainingConfig) and config.shards_weights and has_ranks()


def stage_optimiser(
    stage: Stage, method: Method[Any], config: TrainingConfig, steps: int, scaling: str | None
) -> StageOptimiser:
    """The optimiser of a stage under the engine of the configuration.

    The arguments are those of `StageOptimiser`. A process that has joined no others trains alone.
    """
    kind = ENGINES[config.engine] if has_ranks() else StageOptimiser
    return kind(stage, method, config, steps, scaling)
