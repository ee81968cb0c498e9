"""Claims: which process works on a trial.

A claim is a file that names its process. Processes on any number of machines that share a folder
see it. Its owner lets it grow by one byte every few seconds; a claim that does not grow any more,
or whose process has ended, is taken over. Nothing here compares the clocks of two machines.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from harness.errors import UserError
from harness.inputs import read_note
from harness.locks import busy
from harness.owners import Owner

BEAT_SECONDS = 5.0
"""Time between two signs of life of an owner"""
GONE_SECONDS = 40.0
"""An owner that gave no sign of life for so long is gone; long enough for a crowded machine"""
POLL_SECONDS = 1.0
"""Time between two looks at what another process does"""

_sightings: dict[Path, tuple[tuple[str, int], float]] = {}
"""Claim -> what was seen of it (token, size), and when this was seen first, by our own clock"""


class Claim:
    """The right to work on something, as a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = Owner()
        """This process, as the others read it in the file"""
        self._released = threading.Event()

    def take(self) -> Owner | None:
        """Take the claim and return None, or return the living owner when there is one."""
        while True:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            except FileExistsError:
                if other := owner_of(self.path):
                    return other
                continue  # it is free now
            except FileNotFoundError:
                continue  # another process has removed the empty folder
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(json.dumps(asdict(self.owner)).encode() + b"\n")
            except OSError:  # the disk is full
                self.path.unlink(missing_ok=True)
                raise
            threading.Thread(target=self._live, name=f"claim {self.path}", daemon=True).start()
            return None

    def release(self) -> None:
        """Give the claim back, unless another process has taken it over."""
        self._released.set()
        if _read(self.path)[0] == self.owner:
            self.path.unlink(missing_ok=True)

    def _live(self) -> None:
        """Give signs of life until the claim is given back or taken over."""
        while not self._released.wait(BEAT_SECONDS):
            if _read(self.path)[0] != self.owner:
                return  # this process was taken for gone; two equal results do no harm
            with suppress(OSError):  # a full disk, or a server that is away for a moment
                descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)  # it creates no file
                try:
                    os.write(descriptor, b".")
                finally:
                    os.close(descriptor)


def owner_of(path: Path) -> Owner | None:
    """The living owner of the claim at `path`; None when it is free.

    The claim of an owner that is gone is removed. Whether a process of another machine is gone
    shows only when it is asked for repeatedly, for `GONE_SECONDS`.
    """
    owner, size = _read(path)
    if size is None:
        _sightings.pop(path, None)
        return None
    # A claim without content was made this moment, or its owner died at this moment.
    token = owner.token if owner else ""
    if owner and owner.has_ended:
        _remove(path, token)
        return None
    seen, since = _sightings.get(path, (None, 0.0))
    if seen != (token, size):
        _sightings[path] = ((token, size), time.monotonic())
    elif time.monotonic() - since > GONE_SECONDS:
        _remove(path, token)
        return None
    return owner or Owner("", "an unknown host", 0, "", "")


@contextmanager
def claimed(path: Path, work: str) -> Iterator[None]:
    """Hold the claim at `path` during the block.

    `work`: what the process does meanwhile, for others who wait. While another process holds the
    claim, this one waits and says so, or postpones (`postponing`).
    """
    claim = Claim(path)

    def take() -> Owner | None:
        try:
            return claim.take()
        except OSError as error:
            raise UserError(
                f"{path.parent} cannot be written ({error.strerror}); make room there, and give "
                f"the same command again"
            ) from None

    with held(take, claim.release, work):
        yield


@contextmanager
def held(
    take: Callable[[], Owner | None], release: Callable[[], None], work: str
) -> Iterator[None]:
    """Hold a claim of any kind during the block.

    `take`: takes the claim, or returns its owner, for which this process waits as `claimed` does.
    """
    told = False
    while owner := take():
        if not told:
            busy(f"{owner} works on {work}")
        told = True
        time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        release()


def _read(path: Path) -> tuple[Owner | None, int | None]:
    """The owner that a claim names, and the size of the file; the size is None without a file."""
    try:
        # Opening asks a file server anew; the size in a listing may be a minute old.
        content = read_note(path)
    except OSError:
        return None, None
    try:
        return Owner.of(json.loads(content.partition(b"\n")[0])), len(content)
    except (ValueError, RecursionError):
        return None, len(content)


def _remove(path: Path, token: str) -> None:
    """Remove the claim with this token, whose owner is gone.

    Another process may have removed it and claimed anew since we looked. So the file is moved away
    first, and a claim that turns out to be a living one is put back.
    """
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.gone")
    try:
        path.rename(aside)
    except OSError:
        return  # another process was quicker
    owner, _ = _read(aside)
    if (owner.token if owner else "") != token:
        with suppress(OSError):
            os.link(aside, path)
    aside.unlink(missing_ok=True)
    _sightings.pop(path, None)
