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
