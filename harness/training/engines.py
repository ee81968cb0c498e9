"""The engine of a stage: who computes its gradients and its steps."""

from typing import Any

import torch.distributed as dist

from harness.plugin.config import TrainingConfig
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.data_parallel import DataParallelOptimiser
from harness.training.optimisers import StageOptimiser


def stage_optimiser(
    stage: Stage, method: Method[Any], config: TrainingConfig, steps: int, scaling: str | None
) -> StageOptimiser:
    """The optimiser of a stage under the engine of the configuration.

    The arguments are those of `StageOptimiser`. A process that has joined no others trains alone.
    """
    kind = DataParallelOptimiser if dist.is_initialized() else StageOptimiser
    return kind(stage, method, config, steps, scaling)
