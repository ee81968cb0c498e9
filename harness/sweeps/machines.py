"""Cores, GPUs and memory: those that a trial occupies, and those that machines have."""

import subprocess
from dataclasses import dataclass
from typing import Literal

from harness.sweeps.process_memory import machine_memory


@dataclass(frozen=True)
class Resources:
    """The cores and GPUs of one trial."""

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
    """Host memory of the trial and the processes that it starts; what they share counts once. Of a
    trial with several workers, each has this limit"""
    gpus: float = 0
    """GPUs of the trial; of a part of one, it may use as large a part of the memory"""

    @property
    def shares_gpu(self) -> bool:
        """Whether other trials may use the same GPU."""
        return 0 < self.gpus < 1


_ASK = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class Machine:
    """The memory and the GPUs of one machine, as far as they are known."""

    memory_bytes: int
    """Host memory; 0: not known"""
    gpus: tuple[Gpu, ...] = ()


def this_machine() -> Machine:
    """The machine of this process. GPUs are known where the program nvidia-smi is."""
    # torch would tell it too, but a Ray task without a GPU is shown none.
    try:
        done = subprocess.run(_ASK, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return Machine(machine_memory()[0])
    return Machine(machine_memory()[0], listed_gpus(done.stdout))


def listed_gpus(printed: str) -> tuple[Gpu, ...]:
    """The GPUs in the lines `name, MiB` of nvidia-smi; a line without a number is left out."""
    pairs = [line.rpartition(", ") for line in printed.splitlines()]
    return tuple(Gpu(name, int(mib)) for name, _, mib in pairs if mib.isdecimal())
