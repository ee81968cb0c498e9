"""The engine of a stage: who computes its gradients and its steps."""

from typing import Any

import torch.distributed as dist

from harness.plugin.config import TrainingConfig
from harness.plugin.engine import EngineName
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.data_parallel import DataParallelOptimiser
from harness.training.optimisers import StageOptimiser
from harness.training.zero import ZeroOptimiser

ENGINES: dict[EngineName, type[StageOptimiser]] = {
    "single": StageOptimiser,
    "ddp": DataParallelOptimiser,
    "deepspeed": ZeroOptimiser,
}


def stage_optimiser(
    stage: Stage, method: Method[Any], config: TrainingConfig, steps: int, scaling: str | None
) -> StageOptimiser:
    """The optimiser of a stage under the engine of the configuration.

    The arguments are those of `StageOptimiser`. A process that has joined no others trains alone.
    """
    kind = ENGINES[config.engine] if dist.is_initialized() else StageOptimiser
    return kind(stage, method, config, steps, scaling)
