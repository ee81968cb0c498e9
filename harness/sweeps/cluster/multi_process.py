"""CUDA's multi-process service (MPS), for trials that share a GPU.

Without it, processes take turns on a GPU; with it, their kernels run side by side. Where no service
listens, CUDA does without, so nothing depends on its start.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
"""The program that controls the service; NVIDIA's drivers come with it"""
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
END_SECONDS = 10
"""Time in which the processes that use the service may end, when it is to end"""


@contextmanager
def multi_process_service(folder: Path) -> Iterator[None]:
    """In the block, processes that this one starts share GPUs through a service of their own.

    Its pipes and logs are in a new folder in `folder`. Nothing happens where the program is
    missing, and where `CUDA_MPS_PIPE_DIRECTORY` names the service of somebody else.
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
