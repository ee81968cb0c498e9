"""Ends what the driver of a sweep has started when the driver is killed.

Ray ends most of its processes then, but its agents wait for a minute to report the end to a server
that is gone. A program of its own, `python -m harness.sweeps.cluster.orphans DRIVER`, remembers
what the driver has started, and ends what is left of it. It imports little, as the watchdogs do.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from harness.files import PACKAGE
from harness.sweeps.process_memory import family, start_of

LOOK_SECONDS = 2.0
"""Time between two looks at what the driver has started"""
WAIT_SECONDS = 5.0
"""Time after the end of the driver in which its processes may end by themselves"""


@contextmanager
def no_orphans() -> Iterator[None]:
    """In the block, what this process has started ends seconds after it, however it ends."""
    keeper = subprocess.Popen(
        [sys.executable, "-S", "-P", "-m", __name__, str(os.getpid())],
        env={"PYTHONPATH": str(PACKAGE.parent)},
        start_new_session=True,  # Ctrl-C is for the driver
    )
    try:
        yield
    finally:
        keeper.kill()
        keeper.wait()


def end_orphans_of(driver: int) -> None:
    """Wait until the driver, which is the parent of this process, has ended; then end the rest."""
    started: dict[int, int] = {}
    """Process -> when it started, because the number of one that has ended may be given again"""
    while os.getppid() == driver:
        started |= {process: start_of(process) for process in family(driver)}
        started = {process: start for process, start in started.items() if _runs(process, start)}
        time.sleep(LOOK_SECONDS)
    time.sleep(WAIT_SECONDS)
    for process, start in started.items():
        if process != os.getpid() and _runs(process, start):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)


def _runs(process: int, start: int) -> bool:
    return start > 0 and start_of(process) == start


if __name__ == "__main__":
    end_orphans_of(int(sys.argv[1]))
