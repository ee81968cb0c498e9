"""Peak memory of a piece of work."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class Peak:
    """MiB; measured when the work is done, or before."""

    device: torch.device
    host: float = 0.0
    """Resident memory of the process"""
    gpu: float | None = None
    """Allocated by torch; None without a GPU"""

    def measure(self) -> None:
        """The peaks so far."""
        if self.device.type == "cuda":
            self.gpu = torch.cuda.max_memory_allocated(self.device) / 2**20
        self.host = _high_water_mark()


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Peak]:
    """Peaks of the process's resident memory, and of allocated GPU memory.

    Worker processes run many trials, so the process's own high-water mark is reset first (Linux; elsewhere the mark
    is that of the whole process).
    """
    peak = Peak(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    _reset_high_water_mark()
    yield peak
    peak.measure()


def _reset_high_water_mark() -> None:
    with suppress(OSError):  # not Linux, or not allowed: the mark of the whole process is reported
        Path("/proc/self/clear_refs").write_text("5")


def _high_water_mark() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:
            return int(found.group(1)) / 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 2**20 if sys.platform == "darwin" else used / 1024
