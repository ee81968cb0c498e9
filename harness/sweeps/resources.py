"""The CPU cores and GPUs that one trial of a sweep occupies."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Resources:
    """What one trial occupies."""

    cpus: float = 1
    gpus: float | Literal["auto"] | None = None
    """None: one GPU where the cluster has GPUs, else no GPU; auto: the share that it needs"""


@dataclass(frozen=True)
class Gpu:
    """A GPU of a machine."""

    name: str
    """Its model, as the column `device` of a record has it"""
    memory_mib: int


@dataclass(frozen=True)
class Limits:
    """Limits of one trial; None: no limit of its own.

    Without a memory limit, the largest trial of a machine ends before its memory is used up.
    """

    seconds: float | None = None
    memory_bytes: float | None = None
    """Host memory of the trial and the processes that it starts; what they share counts once"""
    gpus: float = 0
    """GPUs of the trial; of a part of one, it may use as large a part of the memory"""

    @property
    def shares_gpu(self) -> bool:
        """Whether other trials may use the same GPU."""
        return 0 < self.gpus < 1
