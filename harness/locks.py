"""Locks of derived files, and what a process does that meets another one at the same work.

A lock of the operating system ends with its process, so nobody waits for one that is gone.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from filelock import FileLock, Timeout

from harness.errors import Postponed

_logger = logging.getLogger(__name__)
_postpones: ContextVar[bool] = ContextVar("postpones", default=False)


def busy(why: str) -> None:
    """Say that another process does what this one needs; in a worker of a sweep, postpone.

    `why`: what the other process does. Raises Postponed inside of `postponing`.
    """
    if _postpones.get():
        raise Postponed(why)
    _logger.warning("waiting: %s", why)


@contextmanager
def postponing() -> Iterator[None]:
    """In the block, what would wait for another process raises Postponed instead.

    A worker of a sweep does not wait, because it holds a slot and perhaps a GPU meanwhile.
    """
    token = _postpones.set(True)
    try:
        yield
    finally:
        _postpones.reset(token)


def lock_beside(folder: Path) -> Path:
    """The lock of a folder, beside it; the name of the folder may have dots in it."""
    return folder.with_name(f"{folder.name}.lock")


@contextmanager
def locked(path: Path, product: str) -> Iterator[None]:
    """Hold the lock at `path` during the block. `product`: the thing that is made meanwhile.

    While another process holds the lock, this one waits and says so, or postpones.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        busy(f"another process makes {product}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
