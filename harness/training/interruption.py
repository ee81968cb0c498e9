"""Requests to a training to give way: Ctrl-C, SIGTERM, or a file.

Slurm and other schedulers send SIGTERM before they end a job; a sweep makes the file.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ASK_SECONDS = 1.0
"""Least time between two looks for the file, which may be on a slow server"""


outside = threading.Event()
"""It is set when the main thread has got Ctrl-C while it waits for the thread that works, and when
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
    """In the block, an output that takes no more asks the trainings here to give way.

    Its error would count as one of the trial that reports.
    """
    try:
        yield
    except (OSError, SystemExit):  # rich exits where the reader of its output has gone
        outside.set()


@contextmanager
def giving_way(file: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether this process is asked to give way.

    In the block, Ctrl-C and SIGTERM ask and do nothing else; a second one stops the process at
    once. So does a request that the block has not heeded when it ends, as KeyboardInterrupt. The
    file asks while it is there; it is removed when the block ends. In a thread that is not the main
    one, Python allows no handlers of signals, and the file alone asks.
    """
    looked, there = 0.0, False
    try:
        with uninterrupted(signal.SIGINT, signal.SIGTERM) as interrupted:

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
def ended_by_sigterm() -> Iterator[None]:
    """In the block, SIGTERM ends the process as Ctrl-C does, with KeyboardInterrupt."""
    with handled(signal.default_int_handler, signal.SIGTERM):
        yield


@contextmanager
def handled(handler: Callable[..., None], *numbers: int) -> Iterator[None]:
    """In the block, `handler` handles these signals, except for those that the process ignores.

    In a thread that is not the main one it changes nothing.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            # A job in the background ignores Ctrl-C; a handler of None is not Python's.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
