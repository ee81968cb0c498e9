"""Watches one worker from outside: its time, its memory, and what it prints.

It is a program of its own (`harness.processes`) with the arguments PROCESS and PIPE, which every
worker starts once. So it acts also while the worker is in a
loop that never gives Python's lock back, and it outlives the worker by a moment, in which it writes
down the end of the output. It imports little, so that it starts at once and takes 12 MB.

The worker sends a line of JSON when a trial starts (the fields of `Watch`), and an empty line when
it ends, and WAITS and GOES_ON around what does not count as its time. Each is answered by an empty
line.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.sweeps.machines import children, family, machine_memory, parent, resident, share
from harness.trials.output import BoundedLog

WAITS, GOES_ON = "waits", "goes on"
STOPPED = "stopped.json"
"""The file in the folder of a running trial that says why the watchdog ended its worker"""
SAMPLE_SECONDS = 0.1
"""Time between two looks; a trial may allocate some 1 GiB meanwhile"""
RESERVE = 0.07
"""The largest trial ends when less than this part of the machine's memory is left.

Ray's own monitor acts at 0.05, and does not ask which trial took the memory."""
_GIB = 2**30


@dataclass
class Watch:
    """A trial that runs in the worker, and its limits."""

    worker: int
    """Number of the process"""
    folder: str
    """The folder of the running trial"""
    log: str
    """The file for its output"""
    sweep: str
    """Identifier of the sweep"""
    seconds: float | None
    memory_bytes: float | None
    who: str = "it"
    """The subject of the sentence"""
    began: float = field(default_factory=time.monotonic)
    waits: float | None = None
    """When it began to wait for the driver of its sweep; None: it does not wait"""

    def wait(self, *, begins: bool) -> None:
        """The trial begins or ends to wait, which does not count as its time."""
        now = time.monotonic()
        if self.waits is not None:
            self.began += now - self.waits
        self.waits = now if begins else None

    def excess(self) -> str | None:
        """A sentence with what the trial takes too much of; None: nothing."""
        now = time.monotonic() if self.waits is None else self.waits
        if self.seconds and now - self.began > self.seconds:
            return f"{self.who} took longer than --trial-timeout ({self.seconds:g} seconds)"
        if self.memory_bytes and (used := self._used()) > self.memory_bytes:
            return (
                f"{self.who} took {used / _GIB:.2f} GiB of memory, more than --memory-per-trial "
                f"({self.memory_bytes / _GIB:g} GiB)"
            )
        total, free = machine_memory()
        if free < RESERVE * total and (used := occupied(self.worker)) >= max(
            map(occupied, self._beside())
        ):
            return (
                f"{self.who} took {used / _GIB:.1f} GiB of memory, more than any other trial, when "
                f"only {free / _GIB:.1f} of the machine's {total / _GIB:.1f} GiB were left"
            )
        return None

    def _used(self) -> int:
        """The bytes of memory of the trial with the processes that it has started, or more.

        It is exact only above the limit, because it takes the system long to tell what is shared.
        """
        most = sum(map(resident, family(self.worker)))
        return most if most <= (self.memory_bytes or 0) else occupied(self.worker)

    def _beside(self) -> list[int]:
        """The workers of this machine: what the same raylet has started."""
        return [self.worker, *children(parent(self.worker))]

    def stop(self, why: str) -> None:
        """Note why, and end the worker with all that it has started."""
        note = json.dumps({"sweep": self.sweep, "reason": why})
        with suppress(OSError):
            Path(self.folder, STOPPED).write_text(note, encoding="utf-8")
        for process in family(self.worker):
            if process != os.getpid():
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)


def occupied(worker: int) -> int:
    """The bytes of memory of a worker together with all processes that it has started."""
    return sum(map(share, family(worker)))


def watch_worker(worker: int, pipe: int) -> None:
    """Watch until the worker ends. `pipe`: a file descriptor, from which its output is read."""
    os.set_blocking(pipe, False)
    commands = open(0, "rb", buffering=0)  # noqa: SIM115  unbuffered, for poll
    events = select.poll()
    for descriptor in (commands.fileno(), pipe):
        events.register(descriptor, select.POLLIN)
    watch, log = None, None
    while os.getppid() == worker:
        ready = dict(events.poll(SAMPLE_SECONDS * 1000 if watch else 1000))
        output = _read(pipe)
        if log:
            log.add(output)
        if commands.fileno() in ready:
            line = commands.readline()
            if (word := line.decode().strip()) in (WAITS, GOES_ON):
                if watch:
                    watch.wait(begins=word == WAITS)
                os.write(1, b"\n")
                continue
            if log:
                log.add(_read(pipe))  # what was printed before the trial ended
                log.close(ended=not line)
            if not line:
                return
            watch, log = _begun(worker, line)
            os.write(1, b"\n")
        elif watch and (why := watch.excess()):
            watch.stop(why)
            watch = None
    if log:
        log.add(_read(pipe))
        log.close(ended=True)


def _begun(worker: int, line: bytes) -> tuple[Watch | None, BoundedLog | None]:
    """The trial that a line of the worker announces, and its log; nothing for an empty line."""
    if not line.strip():
        return None, None
    watch = Watch(worker, **json.loads(line))
    return watch, BoundedLog(Path(watch.log))


def _read(pipe: int) -> bytes:
    """Content of the pipe at this moment, at most 1 MiB of it."""
    output = b""
    with suppress(BlockingIOError):
        # A worker that prints without end must not keep its watchdog from looking at the clock.
        while len(output) < 1 << 20 and (data := os.read(pipe, 1 << 16)):
            output += data
    return output


if __name__ == "__main__":
    watch_worker(*map(int, sys.argv[1:]))
