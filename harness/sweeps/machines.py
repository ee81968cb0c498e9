"""Cores, GPUs and memory: those that a trial may take, and those of machines and processes.

What processes take, Linux tells; elsewhere nothing is known. The watchdogs ask here, one beside
every worker. They run without installed packages, so that each takes 12 MiB and starts at once, and
the limits of containers are not what psutil knows of.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_ASK = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
"""Folders in which Linux tells of processes, and of groups of them with a limit"""
_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl"""


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


@dataclass(frozen=True)
class Machine:
    """The memory and the GPUs of one machine, as far as they are known."""

    memory_bytes: int
    """Host memory; 0: not known"""
    gpus: tuple[Gpu, ...] = ()


def head_of(address: str, named: str) -> tuple[str, int] | None:
    """Host and port of the head of the Ray cluster at an address; None for `auto`.

    named: the words before the address in a sentence. Raises UserError for another form.
    """
    from harness.errors import UserError  # a watchdog does without it

    if address == "auto":
        return None
    if address.startswith("ray://"):
        raise UserError(
            f"{named} {address}, and a sweep does not run through Ray Client: let this machine "
            f"join the cluster (`ray start --address=HOST:PORT --num-cpus=0`), and write HOST:PORT"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) not in range(1, 2**16):
        raise UserError(
            f"{named} {address}: write HOST:PORT, or auto for the cluster of this machine"
        )
    return host, int(port)


def this_machine() -> Machine:
    """The machine of this process. GPUs are known where the program nvidia-smi is."""
    import subprocess  # a watchdog does without it

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


def resident(process: int) -> int:
    """The bytes of memory that a process occupies; 0 when it has ended."""
    with suppress(OSError):
        pages = (PROC / str(process) / "statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def share(process: int) -> int:
    """The bytes of memory that a process occupies, where n processes share a page 1/n of it (PSS).

    A forked child shares the pages of its parent, so sums over both count them once. It takes the
    system milliseconds for each GiB. Where it is not known, it is what `resident` gives.
    """
    with suppress(OSError, StopIteration):
        lines = (PROC / str(process) / "smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("Pss:")))
    return resident(process)


def family(process: int) -> list[int]:
    """A process with all that it, and what it has started, has started."""
    processes = [process]
    for each in processes:
        processes += children(each)
    return processes


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    processes: list[int] = []
    for listed in (PROC / str(process) / "task").glob("*/children"):
        with suppress(OSError):
            processes += map(int, listed.read_text().split())
    return processes


def parent(process: int) -> int:
    """The process that has started this one; 0 when it is not known."""
    return _number(process, 1)


def start_of(process: int) -> int:
    """Start of a process, in ticks since the machine did; 0 when it has ended."""
    return _number(process, 19)


def _number(process: int, index: int) -> int:
    """The number that proc(5) has of a process at this index behind the name of its program."""
    with suppress(OSError):
        # The name, in brackets, may have spaces.
        stat = (PROC / str(process) / "stat").read_text()
        return int(stat.rpartition(")")[2].split()[index])
    return 0


def adopt_orphans() -> None:
    """Make this process the parent of what its children leave behind when they end.

    So `family` has also a process that has left its parent on purpose, as daemons do.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def machine_memory() -> tuple[int, int]:
    """The bytes of memory that this process and others may use together, and those still free.

    A limit of the container or of the job (cgroup v2) counts as the machine. (0, 0): not known.
    """
    with suppress(OSError):
        lines = dict(line.split(":") for line in (PROC / "meminfo").read_text().splitlines())
        sizes = [int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable")]
        limits = [(sizes[0], sizes[1]), *_limits()]
        return min(limits, key=lambda limit: limit[1])
    return 0, 0


def _limits() -> Iterator[tuple[int, int]]:
    """(limit, free) in bytes of each control group of this process that has a limit."""
    own = (PROC / "self/cgroup").read_text().splitlines()
    path = next((line.removeprefix("0::/") for line in own if line.startswith("0::/")), "")
    for folder in (GROUPS / path, *(GROUPS / path).parents):
        with suppress(OSError, ValueError):  # the root has no such files; "max" is no number
            limit = int((folder / "memory.max").read_text())
            used = int((folder / "memory.current").read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            # Pages of files that nobody uses at the moment are given up when memory is short.
            yield limit, limit - used + int(stat["inactive_file"])
