"""Clusters of Ray on this machine, as `ray start` makes them."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.planted import leaks
from tests.programs import forking_python
from tests.sweeping import marked_processes


def start_node(environment: Mapping[str, str], *options: str, before: Sequence[str] = ()) -> None:
    """`ray start` with these options, which is a fork, as its workers are (tests/forked.py).

    `before`: words in front of the command; with any, it and its workers are real programs.
    """
    python = sys.executable if before else forking_python()
    command = [*before, python, "-m", "ray.scripts.scripts", "start", *options]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)


def free_address() -> str:
    """An address of this machine at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def cluster(environment: Mapping[str, str], *options: str, address: str = "") -> Iterator[str]:
    """A cluster with a head, which gets these options of `ray start`: its address.

    `address`: the one that it gets; "": a free one.

    No file of it may have a secret of the environment. At the end, all processes are killed that
    have the mark of the environment, also the nodes that have joined.
    """
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc")
    # PR_SET_CHILD_SUBREAPER: after a watchdog in this process, a killed raylet would be its zombie,
    # beside which Ray's workers go on for ever.
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
    address = address or free_address()
    port = address.partition(":")[2]
    # The sockets of Ray need a short path.
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        head = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}/r"]
        try:
            start_node(environment, *head, *options)
            yield address
            assert not leaks(Path(folder), environment)
        finally:
            for number in marked_processes(environment["HARNESS_TEST_MARK"]):
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
