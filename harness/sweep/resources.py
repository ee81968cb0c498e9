"""The CPU cores and GPUs that one trial of a sweep occupies."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """What one trial occupies."""

    cpus: float = 1
    gpus: float | None = None
    """None: one GPU where the cluster has GPUs, else no GPU"""
