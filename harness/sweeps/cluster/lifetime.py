"""Things that live as long as a sweep on Ray: a folder, CUDA's service, what its driver starts.

Ray ends most of its processes when the driver is killed, but its agents wait for a minute to report
the end to a server that is gone. So a program of its own, this module with the argument DRIVER,
remembers what the driver has started, and ends what is left of it. It runs without the installed
packages, as the watchdogs do.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import SweepStopped
from harness.files import PACKAGE
from harness.owners import left_behind, write_owner
from harness.sweeps.machines import family, start_of

if TYPE_CHECKING:
    from harness.trials.cleaning import Removable

PREFIX = "harness-ray-"
SHORT = Path("/tmp")
"""The place of the folder when the folder for temporary files has too long a name for Ray"""
_LONGEST = 24
"""Ray's sockets are some 70 bytes further down, and the path of a socket may have 107 bytes"""
CONTROL = "nvidia-cuda-mps-control"
"""The program that controls the service; NVIDIA's drivers come with it"""
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
END_SECONDS = 10
"""Time in which the processes that use the service may end, when it is to end"""
LOOK_SECONDS = 2.0
"""Time between two looks at what the driver has started"""
WAIT_SECONDS = 5.0
"""Time after the end of the driver in which its processes may end by themselves"""


@contextmanager
def session_folder() -> Iterator[Path]:
    """A new folder for what a sweep keeps only while it runs, which only this user can read.

    Folders of sweeps that were killed are removed, here or by `harness clean`. After SweepStopped
    it stays for the next sweep, because processes of Ray may still write there.
    """
    for folder in left_sessions().paths:
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_place()))  # with the mode 0700
    write_owner(folder)
    try:
        yield folder
    except SweepStopped:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def left_sessions() -> "Removable":
    """The folders of sweeps that were killed."""
    from harness.trials.cleaning import Removable  # with pyarrow

    folders = sorted(_place().glob(f"{PREFIX}*"))
    return Removable(f"{PREFIX}*", "folders of Ray, of killed sweeps", folders, left_behind)


def _place() -> Path:
    temporary = Path(tempfile.gettempdir())
    return SHORT if len(str(temporary)) > _LONGEST else temporary


@contextmanager
def multi_process_service(folder: Path) -> Iterator[None]:
    """In the block, processes that this one starts share GPUs through CUDA's service (MPS).

    Without it, they take turns on a GPU; with it, their kernels run side by side. Its pipes and
    logs are in a new folder in `folder`. Nothing happens where the program is missing, and where
    `CUDA_MPS_PIPE_DIRECTORY` names the service of somebody else.
    """
    program = shutil.which(CONTROL)
    if program is None or PIPES in os.environ:
        yield
        return
    own = folder / "mps"
    own.mkdir()
    # It would number the visible GPUs anew, and Ray gives workers the numbers of the machine.
    environment = {
        name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"
    }
    directories = {PIPES: str(own), LOGS: str(own)}
    os.environ.update(directories)
    service = subprocess.Popen(
        [program, "-f"],
        env=environment | directories,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the driver, and trials save their state then
    )
    try:
        yield
    finally:
        _end(service, program)
        for name in directories:
            del os.environ[name]


def _end(service: subprocess.Popen[bytes], program: str) -> None:
    """Let the service end with its servers, and kill it if it does not."""
    try:
        asked = f"quit -t {END_SECONDS}\n".encode()
        patience = 2 * END_SECONDS
        subprocess.run([program], input=asked, capture_output=True, timeout=patience, check=False)
        service.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()


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
