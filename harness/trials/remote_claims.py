"""Claims in a bucket: which process of any machine works on a trial.

A claim is an object of its process. Who claims writes first and looks then, and has the claim only
when no other one is there. Of two processes that write at the same time, each sees the other one,
since a bucket shows at once what was written; so at most one of them goes on. The owner writes its
object anew every few seconds. One that does not change any more is of a machine that is gone.
Nothing here compares two clocks.

A conditional write (`If-None-Match: *`) would be one request, but pyarrow 26 has none: it drops the
header (apache/arrow#44281), and servers that do not know it would let both processes go on.
"""

import json
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.owners import Owner
from harness.remote import RemoteAway, RemoteFolder, RemoteObject
from harness.trials.store_folders import PROGRESS

REMOTE_BEAT_SECONDS = 10.0
"""Time between two signs of life of an owner"""
REMOTE_GONE_SECONDS = 60.0
"""An owner that gave no sign of life for so long is gone"""
YIELD_SECONDS = 2.0
"""Time in which the second of two processes that claim at the same time has withdrawn"""
RUNNING_OBJECTS = ".running"
"""The folder of the claims, and of the notes that drivers leave for running trials"""

_sightings: dict[str, tuple[RemoteObject, float]] = {}
"""Claim -> what was seen of it, and when this was seen first, by our own clock"""


class RemoteClaim:
    """The right to work on a trial, as an object of a bucket."""

    def __init__(self, remote: RemoteFolder, key: str, running: Path) -> None:
        """`running`: the folder of the trial on this machine, into which notes are brought."""
        self.remote, self.key, self.running = remote, key, running
        self.owner = Owner()
        self._name = f"{key}-{self.owner.token}"
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"claim {key}", daemon=True)

    def take(self) -> Owner | None:
        """Take the claim and return None, or return the living owner when there is one.

        Raises RemoteAway when the bucket cannot be asked.
        """
        if owner := living(self.remote, self.key, self._name):
            return owner[1]
        self._beat()
        until = time.monotonic() + YIELD_SECONDS
        while owner := living(self.remote, self.key, self._name):
            # The later name withdraws; the earlier one waits for that, and not for ever, because
            # the other one may have looked before this one has written.
            if self._name > owner[0] or time.monotonic() > until:
                self.remote.remove(f"{RUNNING_OBJECTS}/{self._name}")
                return owner[1]
            time.sleep(0.2)
        for note in self._notes():  # for a process that has died
            self.remote.remove(f"{RUNNING_OBJECTS}/{note}")
        self._thread.start()
        return None

    def release(self) -> None:
        """Give the claim back, with the notes of the trial."""
        self._released.set()
        if self._thread.ident is None:
            return
        self._thread.join()
        with suppress(RemoteAway):  # without signs of life it ends by itself
            for name in (self._name, *self._notes()):
                self.remote.remove(f"{RUNNING_OBJECTS}/{name}")

    def _notes(self) -> list[str]:
        """The names of the notes for the trial."""
        names = self.remote.names(RUNNING_OBJECTS)
        return [name for name in names if name.startswith(f"{self.key}.")]

    def _live(self) -> None:
        """Give signs of life, and bring notes to the trial, until the claim is given back."""
        while not self._released.wait(REMOTE_BEAT_SECONDS):
            with suppress(RemoteAway, OSError):
                for note in self._notes():
                    (self.running / note.removeprefix(f"{self.key}.")).touch()
                self._beat()

    def _beat(self) -> None:
        """Write the claim anew; the server's time of the object is the sign of life."""
        content: dict[str, Any] = {"owner": asdict(self.owner), "progress": None}
        with suppress(OSError):  # it has not begun
            content["progress"] = (self.running / PROGRESS).read_text(encoding="utf-8")
        self.remote.put(f"{RUNNING_OBJECTS}/{self._name}", json.dumps(content).encode())


def living(remote: RemoteFolder, key: str, own: str = "") -> tuple[str, Owner] | None:
    """The name and the owner of a living claim of a trial, other than `own`; None without one.

    The claim of an owner that is gone is removed. Whether a process of another machine is gone
    shows only when it is asked for repeatedly, for `REMOTE_GONE_SECONDS`. Raises RemoteAway.
    """
    for name, seen in remote.names(RUNNING_OBJECTS).items():
        if name == own or not name.startswith(f"{key}-"):
            continue
        before, since = _sightings.get(name, (None, 0.0))
        if before != seen:
            _sightings[name] = (seen, time.monotonic())
        if before != seen or time.monotonic() - since <= REMOTE_GONE_SECONDS:
            with suppress(ValueError):  # it has been given back this moment, or names nobody
                owner = Owner.of(_content(remote, name).get("owner"))
                if not owner.has_ended:
                    return name, owner
        remote.remove(f"{RUNNING_OBJECTS}/{name}")
        _sightings.pop(name, None)
    return None


def progress_of_others(remote: RemoteFolder, here: Collection[str]) -> Iterator[str]:
    """The notes of running trials (PROGRESS) without those with the keys in `here`.

    They are as old as the last sign of life. Raises RemoteAway.
    """
    for name in remote.names(RUNNING_OBJECTS):
        key, dash, _ = name.partition("-")
        if dash and key not in here:
            note = _content(remote, name).get("progress")
            if isinstance(note, str):
                yield note


def _content(remote: RemoteFolder, name: str) -> dict[str, Any]:
    """The content of a claim; nothing when it is gone or is no claim."""
    for _ in range(3):  # it may be replaced by a longer one while it is read
        with suppress(ValueError, RecursionError):
            content = json.loads(remote.get(f"{RUNNING_OBJECTS}/{name}") or b"{}")
            return content if isinstance(content, dict) else {}
    return {}
