"""Claims in a bucket: which process of any machine works on a trial.

A claim is one object for each trial, which is written only where there is none (`If-None-Match`),
so of any number of processes one has it. A process gives signs of life for all of its claims at
once: it writes one object anew every few seconds, with the progress of its trials. A process whose
object does not change any more is gone, and its claims are replaced by others, each only where it
is still the same (`If-Match`). Nothing here compares two clocks.
"""

import json
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.files import digest
from harness.owners import Owner
from harness.remote import RemoteAway, RemoteFolder
from harness.trials.store_folders import PROGRESS

REMOTE_BEAT_SECONDS = 10.0
"""Time between two signs of life of a process"""
REMOTE_GONE_SECONDS = 60.0
"""A process that gave no sign of life for so long is gone"""
CLAIMS, BEATS, NOTES = ".running", ".beats", ".notes"
"""The folders of the claims, named by the trials; of the signs of life, named by the processes; and
of the notes that drivers leave for running trials, which begin with the token of the claim"""

_sightings: dict[str, tuple[str | None, float]] = {}
"""Token of a claim, or name of a sign of life -> the last one seen (its digest), and since when"""


class RemoteClaim:
    """The right to work on a trial, as an object of a bucket."""

    def __init__(self, remote: RemoteFolder, key: str, running: Path) -> None:
        """`running`: the folder of the trial on this machine, into which notes are brought."""
        self.remote, self.key, self.running = remote, key, running
        self.owner = Owner()
        self._name = f"{CLAIMS}/{key}"

    def take(self) -> Owner | None:
        """Take the claim and return None, or return the living owner when there is one.

        Raises RemoteAway when the bucket cannot be asked.
        """
        content = json.dumps(asdict(self.owner)).encode()
        while not self.remote.create(self._name, content):
            owner, version = _claim(self.remote, self.key)
            if owner == self.owner:  # only the answer was lost
                break
            if owner and _is_alive(self.remote, owner):
                return owner
            # Without a version, it was given back this moment.
            if version is not None and self.remote.replace(self._name, content, version):
                if owner:
                    with suppress(RemoteAway):
                        self.remote.remove(f"{BEATS}/{_beat_name(owner)}")
                        _remove_notes(self.remote, owner)
                break
        _heart(self.remote.address, self.owner).add(self)
        return None

    def release(self) -> None:
        """Give the claim back, with the notes of the trial, unless another process has taken it."""
        _heart(self.remote.address, self.owner).remove(self)
        with suppress(RemoteAway):  # without signs of life it ends by itself
            if _claim(self.remote, self.key)[0] == self.owner:
                self.remote.remove(self._name)
            _remove_notes(self.remote, self.owner)

    @property
    def progress(self) -> str | None:
        """The content of the file PROGRESS; None when the trial has not begun."""
        with suppress(OSError):
            return (self.running / PROGRESS).read_text(encoding="utf-8")
        return None


class _Heart:
    """The signs of life of a process in a bucket, while it has a claim there."""

    def __init__(self, remote: RemoteFolder, name: str) -> None:
        self._remote, self._name = remote, f"{BEATS}/{name}"
        self._claims: dict[str, RemoteClaim] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._beats = 0

    def add(self, claim: RemoteClaim) -> None:
        """Give signs of life for a claim as well. The first one comes after some seconds."""
        with self._lock:
            self._claims[claim.owner.token] = claim
            if self._thread is None:
                self._stopped.clear()
                self._thread = threading.Thread(target=self._live, name=self._name, daemon=True)
                self._thread.start()

    def remove(self, claim: RemoteClaim) -> None:
        """Give no more signs of life for a claim; after the last one, none are left."""
        with self._lock:
            self._claims.pop(claim.owner.token, None)
            if self._claims or self._thread is None:
                return
            self._stopped.set()
            self._thread.join()
            self._thread = None
            if self._beats:
                with suppress(RemoteAway):
                    self._remote.remove(self._name)

    def _live(self) -> None:
        while not self._stopped.wait(REMOTE_BEAT_SECONDS):
            with suppress(RemoteAway):
                self._beat()

    def _beat(self) -> None:
        """Write how far the trials are, and bring them their notes."""
        claims = self._claims.copy()
        self._beats += 1  # so no two are equal
        progress = {claim.key: claim.progress for claim in claims.values()}
        content = json.dumps({"beat": self._beats, "progress": progress})
        self._remote.put(self._name, content.encode())
        for name in self._remote.names(NOTES):
            token, _, note = name.partition(".")
            if note and token in claims:
                with suppress(OSError):  # the trial has ended
                    (claims[token].running / note).touch()


_hearts: dict[tuple[str, str], _Heart] = {}
"""Address of a bucket's folder and name of a process -> its signs of life there"""


def _heart(address: str, owner: Owner) -> _Heart:
    name = _beat_name(owner)
    return _hearts.setdefault((address, name), _Heart(RemoteFolder(address), name))


def owner_in(remote: RemoteFolder, key: str) -> Owner | None:
    """The living process that has the claim of a trial; None without one.

    Whether a process of another machine is gone shows only when it is asked for repeatedly, for
    `REMOTE_GONE_SECONDS`. Raises RemoteAway.
    """
    owner, _ = _claim(remote, key)
    return owner if owner and _is_alive(remote, owner) else None


def send_note(remote: RemoteFolder, key: str, name: str) -> None:
    """Leave a note for the process that runs a trial, if there is one. Raises RemoteAway."""
    owner, _ = _claim(remote, key)
    if owner:
        remote.put(f"{NOTES}/{owner.token}.{name}", b"")


def progress_of_others(remote: RemoteFolder, here: Collection[str]) -> Iterator[str]:
    """The notes of running trials (PROGRESS) without those with the keys in `here`.

    They are as old as the last sign of life. What a process left behind that is gone is removed
    when this is asked for repeatedly. Raises RemoteAway.
    """
    for name in remote.names(BEATS):
        content = remote.get(f"{BEATS}/{name}")
        if _stands_still(name, content):
            remote.remove(f"{BEATS}/{name}")
            continue
        progress = _object(content).get("progress")
        for key, note in progress.items() if isinstance(progress, dict) else ():
            if key not in here and isinstance(note, str):
                yield note


def _claim(remote: RemoteFolder, key: str) -> tuple[Owner | None, str | None]:
    """The owner and the version of a claim; no version: there is none.

    Without an owner, it is something that a stranger wrote.
    """
    content, version = remote.get_version(f"{CLAIMS}/{key}") or (None, None)
    with suppress(ValueError):
        return Owner.of(_object(content)), version
    return None, version


def _object(content: bytes | None) -> dict[str, Any]:
    """The JSON object in a content; an empty one when there is none."""
    with suppress(ValueError, RecursionError):
        value = json.loads(content or b"{}")
        return value if isinstance(value, dict) else {}
    return {}


def _beat_name(owner: Owner) -> str:
    """The name of the signs of life of a process."""
    return digest(f"{owner.place} {owner.process} {owner.began}")


def _is_alive(remote: RemoteFolder, owner: Owner) -> bool:
    if owner.has_ended:
        return False
    beat = remote.get(f"{BEATS}/{_beat_name(owner)}")
    return not _stands_still(owner.token, beat)


def _stands_still(name: str, beat: bytes | None) -> bool:
    """Whether nothing new was seen for REMOTE_GONE_SECONDS; that there is nothing is not new."""
    seen, since = _sightings.get(name, (None, 0.0))
    if name in _sightings and (beat is None or digest(beat) == seen):
        return time.monotonic() - since > REMOTE_GONE_SECONDS
    _sightings[name] = (digest(beat) if beat else None, time.monotonic())
    return False


def _remove_notes(remote: RemoteFolder, owner: Owner) -> None:
    """Remove the notes for a claim."""
    names = remote.names(NOTES)
    notes = [name for name in names if name.startswith(f"{owner.token}.")]
    remote.remove(*(f"{NOTES}/{name}" for name in notes))
