"""Limits of a trial of a sweep, and how a worker keeps it within them.

The watchdog of a worker (`harness.sweeps.workers.watchdog`) ends the worker when its trial takes
too much. Ray then gives the trial to another worker, which finds the watchdog's note and records
the failure.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch

from harness.errors import OUTPUT_FOLLOWS, REASON_LENGTH
from harness.processes import python_command
from harness.sweeps.machines import Limits, adopt_orphans
from harness.sweeps.workers.gpu_share import allowed_fraction
from harness.sweeps.workers.watchdog import GOES_ON, STOPPED, WAITS
from harness.trials.output import last_lines

Value = TypeVar("Value")


class Watchdog:
    """The process that watches this one.

    It serves all trials of a worker, one after the other.
    """

    @staticmethod
    @cache
    def here() -> "Watchdog":
        """The watchdog of this process."""
        return Watchdog()

    def __init__(self) -> None:
        adopt_orphans()
        self._start()

    def _start(self) -> None:
        read, self._pipe = os.pipe()
        self._process = subprocess.Popen(
            # -S: without the installed packages it starts at once and takes 12 MiB.
            python_command(
                "harness.sweeps.workers.watchdog", str(os.getpid()), str(read), options=("-S",)
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[read],
            env={},
            start_new_session=True,  # Ctrl-C ends the worker, and with it the watchdog
            bufsize=0,
        )
        os.close(read)

    @contextmanager
    def watching(
        self, running: Path, log: Path, sweep: str, limits: Limits, who: str = "it"
    ) -> Iterator[None]:
        """Keep the trial of the block within its limits, and its output in the file `log`.

        `running`: its folder. `sweep`: identifies the sweep in the note of a trial that is stopped.
        `who`: the subject of this note.
        """
        if limits.shares_gpu and torch.cuda.is_available():
            total = torch.cuda.get_device_properties().total_memory / 2**20
            torch.cuda.set_per_process_memory_fraction(allowed_fraction(limits.gpus, total))
        told = {"seconds": limits.seconds, "memory_bytes": limits.memory_bytes, "who": who}
        trial = json.dumps({"folder": str(running), "log": str(log), "sweep": sweep, **told})
        while not self._tell(trial):
            os.close(self._pipe)
            self._start()
        try:
            with _output_into(self._pipe):
                yield
        finally:
            self._tell("")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the time of the block not count as that of the trial."""
        self._tell(WAITS)
        try:
            yield
        finally:
            self._tell(GOES_ON)

    def _tell(self, line: str) -> bool:
        """Whether the watchdog has answered; not when it was killed, or in a fork of its worker."""
        assert self._process.stdin
        assert self._process.stdout
        if self._process.poll() is not None:
            return False
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            return False
        return bool(self._process.stdout.readline())


def limited(
    running: Path, log: Path, sweep: str, limits: Limits, run: Callable[[], Value]
) -> Value | str:
    """The value of `run`, kept within the limits, or why this sweep has stopped it before.

    The other arguments are those of `Watchdog.watching`.
    """
    if why := stopped(running, sweep):  # by the watchdog of another worker
        return with_log(why, log)
    running.mkdir(parents=True, exist_ok=True)
    with Watchdog.here().watching(running, log, sweep, limits):
        return run()


def stop_note(running: Path, sweep: str) -> Path:
    """The file that keeps workers from beginning with further trials.

    `running`: the folder of the running trials. `sweep`: identifier of this run of a sweep.
    """
    return running / f"stop-{sweep}"


def stopped(running: Path, sweep: str) -> str | None:
    """The reason why the watchdog has stopped this trial in this sweep; None when it has not."""
    with suppress(OSError, ValueError, KeyError):
        note = json.loads((running / STOPPED).read_text(encoding="utf-8"))
        if note["sweep"] == sweep:
            return str(note["reason"])
    return None


def with_log(why: str, log: Path) -> str:
    """A reason with the last lines of the trial's output, as long as a reason may be."""
    begun = why + OUTPUT_FOLLOWS
    lines = last_lines(log, REASON_LENGTH - len(begun))
    return begun + lines if lines else why


@contextmanager
def _output_into(pipe: int) -> Iterator[None]:
    """In the block, what this process prints goes into a pipe, also what is not Python's."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(descriptor) for descriptor in (1, 2)]
    for descriptor in (1, 2):
        os.dup2(pipe, descriptor)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # the watchdog was killed, and nobody reads
            sys.stdout.flush()
            sys.stderr.flush()
        for descriptor, kept in zip((1, 2), before, strict=True):
            os.dup2(kept, descriptor)
            os.close(kept)
