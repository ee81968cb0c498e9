"""The processes of one trial: rank 0 starts the others, and says why one of them ended.

Ranks of one machine find one another through a file and talk on loopback alone. A sweep starts them
on its cluster instead (harness.sweeps.workers.rank_actors).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Any, Protocol

import torch

from harness.errors import WorkerLost
from harness.plugin.config import TrainingConfig
from harness.processes import python_command
from harness.ranks import FILE_ADDRESS, is_lost, joined
from harness.trials.trial import Trial, portable

START_LOOK_SECONDS = 0.2
"""Time between two looks whether all ranks have started"""
OTHERS_LEFT = 3
"""The exit code of a rank that ends because another one has"""
_INTERFACE = "GLOO_SOCKET_IFNAME"
END_SECONDS = 20.0
"""Seconds for which rank 0 waits for the reason of a rank that has ended"""


@contextmanager
def in_threads(count: int) -> Iterator[None]:
    """In the block, torch has so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class RankSpec:
    """A rank of a trial, as the process that becomes it is told."""

    number: int
    count: int
    address: str
    threads: int

    @contextmanager
    def active(self) -> Iterator[None]:
        """In the block, this process is that rank."""
        if torch.cuda.is_available():
            # A worker of Ray sees its own GPU alone, so that there it has number 0.
            torch.cuda.set_device(self.number % torch.cuda.device_count())
        with in_threads(self.threads), joined(self.number, self.count, self.address):
            yield


class Peers(Protocol):
    """The other ranks of a trial, as rank 0 sees them."""

    def ready(self) -> bool:
        """Whether all are about to join. Raises WorkerLost when one has ended."""

    def reason(self) -> str | None:
        """The reason why one has ended by itself, which may take it some seconds; None: none has.

        One that ends because another is lost has not ended by itself.
        """

    def running(self) -> list[int]:
        """The numbers of those that have not ended."""


RankLauncher = Callable[[Trial, int], AbstractContextManager[tuple[Peers, RankSpec]]]
"""Trial, number of ranks -> the others, started, and rank 0. They end with the block."""


@contextmanager
def distributed(trial: Trial, launch: RankLauncher | None = None) -> Iterator[None]:
    """In the block, this process is rank 0 of the trial, and the others follow it.

    A trial of a single process changes nothing. `launch`: None: on this machine. Raises WorkerLost
    when another rank ends before its time.
    """
    config = trial.config
    if not isinstance(config, TrainingConfig) or config.engine == "single":
        yield
        return
    with (launch or on_this_machine)(trial, trial.workers) as (peers, rank):
        while not peers.ready():
            time.sleep(START_LOOK_SECONDS)
        try:
            with rank.active():
                yield
        except RuntimeError as error:
            if is_lost(error):
                why = peers.reason() or _silent(peers, rank.count)
                raise WorkerLost(why or f"another worker is lost ({error})") from error
            raise


def worker_name(number: int, count: int) -> str:
    """The name of a rank for people, who count from 1."""
    return f"worker {number + 1} of {count}"


def _silent(peers: Peers, count: int) -> str | None:
    """The ranks that do not answer. None: all have ended.

    Rank 0 has left them, so whoever waited for the same one has ended, too.
    """
    names = [worker_name(number, count) for number in peers.running()]
    return f"no answer from {' and '.join(names)}" if names else None


def _passed_on(output: IO[bytes], name: str) -> None:
    """Print what a rank prints, each line behind its name, so that the trial's log has it."""
    for line in output:
        print(f"{name}: {line.decode(errors='replace').rstrip()}", file=sys.stderr)


class _Processes:
    """Ranks that are processes of this machine."""

    def __init__(self, commands: list[Mapping[str, Any]]) -> None:
        self._started: list[subprocess.Popen[bytes]] = []
        self._printing: list[Thread] = []
        for number, command in enumerate(commands, 1):
            process = subprocess.Popen(
                python_command("harness.trials.follower"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for rank 0, which agrees with the others
            )
            self._started.append(process)
            assert process.stdin
            assert process.stdout
            assert process.stderr
            name = worker_name(number, len(commands) + 1)
            printing = Thread(target=_passed_on, args=(process.stderr, name), daemon=True)
            printing.start()
            self._printing.append(printing)
            os.set_blocking(process.stdout.fileno(), False)
            process.stdin.write(json.dumps(command).encode() + b"\n")
            process.stdin.flush()
        self._said = dict.fromkeys(range(len(commands)), b"")

    def ready(self) -> bool:
        if why := self._ended():
            raise WorkerLost(why)
        return all(said.startswith(b"ready") for said in self._said.values())

    def reason(self) -> str | None:
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until:
            if why := self._ended():
                return why
            time.sleep(START_LOOK_SECONDS)
        return None

    def running(self) -> list[int]:
        return [number for number, process in enumerate(self._started, 1) if process.poll() is None]

    def close(self) -> None:
        """End the ranks that have not ended."""
        for process in self._started:
            assert process.stdin
            with suppress(OSError):
                process.stdin.close()
        for process in self._started:
            try:
                process.wait(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for printing in self._printing:
            printing.join(END_SECONDS)  # what a rank has started may hold its output open

    def _ended(self) -> str | None:
        """The reason of the first rank that has ended."""
        for index, process in enumerate(self._started):
            code = process.poll()
            assert process.stdout
            self._said[index] += process.stdout.read() or b""
            if code and code != OTHERS_LEFT:
                output = self._said[index].decode(errors="replace").removeprefix("ready\n").strip()
                why = output or f"it ended with the exit code {code}"
                return f"{worker_name(index + 1, len(self._started) + 1)}: {why}"
        return None


@contextmanager
def on_this_machine(trial: Trial, count: int) -> Iterator[tuple[Peers, RankSpec]]:
    """Start the other ranks as processes of this machine, which share its cores with this one."""
    threads = max(1, torch.get_num_threads() // count)
    with on_loopback() as address, ExitStack() as ending:
        ranks = [RankSpec(number, count, address, threads) for number in range(count)]
        plain = portable(trial)
        processes = _Processes([{"trial": plain, "rank": vars(rank)} for rank in ranks[1:]])
        ending.callback(processes.close)
        yield processes, ranks[0]


@contextmanager
def on_loopback() -> Iterator[str]:
    """In the block, gloo talks on loopback alone; yields a place in which ranks find one another.

    It is a file that only this user can read.
    """
    before = os.environ.get(_INTERFACE)
    os.environ[_INTERFACE] = "lo"
    try:
        with tempfile.TemporaryDirectory(prefix="harness-ranks-") as folder:
            yield f"{FILE_ADDRESS}{Path(folder) / 'meeting'}"
    finally:
        if before is None:
            del os.environ[_INTERFACE]
        else:
            os.environ[_INTERFACE] = before
