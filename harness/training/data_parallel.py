"""Data parallelism: every process has the whole model, and their gradients are averaged."""

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from harness.data.batching import TextBatch
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.optimisers import StageOptimiser


class Losses(nn.Module):
    """The losses of a method as a module, whose passes a library can follow."""

    def __init__(self, method: Method[Any]) -> None:
        super().__init__()
        self.method = method

    def forward(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        """What `Method.losses` gives."""
        return self.method.losses(batch, stage)


class DataParallelOptimiser(StageOptimiser):
    """The optimiser of a stage whose gradients are means over the ranks (harness.ranks)."""

    def __init__(self, stage: Stage, method: Method[Any], *arguments: Any) -> None:
        """The arguments are those of `StageOptimiser`."""
        super().__init__(stage, method, *arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # older torch has no other name for it
            self._parallel = DistributedDataParallel(
                Losses(method),
                # What a step leaves out, as a loss over nothing does, has no gradient to wait for.
                find_unused_parameters=True,
                gradient_as_bucket_view=True,  # no second copy of them
                broadcast_buffers=False,  # all ranks compute the same ones
            )
        self.losses = self._parallel

    def accumulating(self, *, last: bool) -> AbstractContextManager[object]:
        return nullcontext() if last else self._parallel.no_sync()
