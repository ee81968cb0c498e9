"""Requests to a training to give way: Ctrl-C, SIGTERM, SIGHUP, or a file.

Slurm and other schedulers send SIGTERM before they end a job, and a terminal sends SIGHUP when it
goes, as at the end of an ssh; a sweep makes the file.
"""

import errno
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a command to stop"""

ASK_SECONDS = 1.0
"""Least time between two looks for the file, which may be on a slow server"""


outside = threading.Event()
"""Set when the main thread has got Ctrl-C while it waits for the thread that works, and when
nobody reads any more what a training reports"""


def in_a_thread(call: Callable[[], T]) -> T:
    """Return the result of a call that runs in a thread of its own, as it must in a notebook.

    Ctrl-C asks it to give way; a second one is not waited for.
    """
    executor = ThreadPoolExecutor(1)
    try:
        future = executor.submit(call)
        try:
            return future.result()
        except KeyboardInterrupt:
            outside.set()
            return future.result()
    finally:
        outside.clear()
        executor.shutdown(wait=False)


@contextmanager
def read_or_stopped() -> Iterator[None]:
    """In the block, an output that takes no more asks trainings to give way, and is no error."""
    try:
        yield
    except SystemExit:  # rich exits where the reader of its output has gone
        outside.set()
    except OSError as error:
        if not outside.is_set():
            outside.set()
            say_unwritten(error)


def say_unwritten(error: OSError) -> None:
    """Say on stderr why an output takes no more, unless its reader has gone."""
    if error.errno != errno.EPIPE:
        with suppress(OSError):
            message = f"Error: the output cannot be written ({error.strerror})"
            print(message, file=sys.stderr)


@contextmanager
def giving_way(file: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether this process is asked to give way.

    In the block, the signals of `STOPS` ask and do nothing else; a second one stops the process at
    once. So does a request that the block has not heeded when it ends, as KeyboardInterrupt. The
    file asks while it is there; it is removed when the block ends. In a thread that is not the main
    one, Python allows no handlers of signals, and the file alone asks.
    """
    looked, there = 0.0, False
    try:
        with uninterrupted(*STOPS) as interrupted:

            def asked() -> bool:
                nonlocal looked, there
                if time.monotonic() - looked >= ASK_SECONDS:
                    looked, there = time.monotonic(), file.exists()
                return there or interrupted() or outside.is_set()

            yield asked
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def uninterrupted(*numbers: int) -> Iterator[Callable[[], bool]]:
    """In the block, these signals wait for its end; a second one stops the process at once.

    Yield a function that says whether one has come. Besides trainings, it is for libraries that
    start processes: what is raised while Python forks is lost, and may leave a lock behind for
    which other threads wait without end.
    """
    signals = 0

    def note(*_: object) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            raise KeyboardInterrupt

    with handled(note, *numbers):
        yield lambda: signals > 0
    if signals:
        raise KeyboardInterrupt


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """In the block, all signals of `STOPS` end the process with KeyboardInterrupt."""
    with handled(signal.default_int_handler, *STOPS):
        yield


@contextmanager
def handled(handler: Callable[..., None], *numbers: int) -> Iterator[None]:
    """In the block, `handler` handles these signals, except for those that the process ignores.

    In a thread that is not the main one it changes nothing.
    """

    def call(number: int, frame: object) -> None:
        if number == signal.SIGHUP:  # the shell and the system send it, one after the other
            signal.signal(number, signal.SIG_IGN)
        handler(number, frame)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            # A job in the background ignores Ctrl-C; a handler of None is not Python's.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, call)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
