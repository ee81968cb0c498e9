"""Peak memory of a piece of work."""

import ctypes
import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class Peak:
    """The peak memory of a piece of work, in MiB."""

    device: torch.device
    host: float = 0.0
    """Peak of the resident memory of the process"""
    gpu: float | None = None
    """Peak of the GPU memory that torch allocated; None: the work runs on a CPU"""

    def measure(self) -> None:
        """Take the peaks so far. Work that has not ended may ask for them, too."""
        if self.device.type == "cuda":
            self.gpu = torch.cuda.max_memory_allocated(self.device) / 2**20
        self.host = _high_water_mark()


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Peak]:
    """Measure the peak memory of the block; the result is complete when the block has ended.

    The host memory is that of the whole process. Outside Linux it is the peak since the process
    started, not that of the block.
    """
    # A worker process runs many trials, so the marks are reset, and what the trials before have
    # left goes back to the system.
    give_back()
    peak = Peak(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    # It fails where the system is not Linux or does not allow it. The mark is then an upper bound.
    with suppress(OSError):
        # 5 is the code that resets VmHWM (proc(5)).
        Path("/proc/self/clear_refs").write_text("5")
    yield peak
    peak.measure()


def give_back() -> None:
    """Return freed memory to the GPU and to the system.

    torch would keep that of the GPU, and the C library that of the system: gigabytes after a while.
    Of C libraries, only glibc can be asked for it.
    """
    gc.collect()
    torch.cuda.empty_cache()  # without a GPU it does nothing
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def own_garbage() -> Iterator[None]:
    """Let the garbage collector look only at objects that the block makes.

    What was imported before is half a million objects and no garbage, and every trial, and every
    engine of DeepSpeed, collects: a quarter of a second each time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()  # once more while it is quick: the next block would not see what is left
        gc.unfreeze()


def _high_water_mark() -> float:
    """The largest resident memory so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:
            return int(found.group(1)) / 1024
    import resource  # Windows has no such module

    # macOS gives bytes, the other systems give KiB.
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 2**20 if sys.platform == "darwin" else used / 1024
