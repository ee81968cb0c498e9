"""A store in a bucket, `s3://BUCKET/FOLDER`, with a copy on each machine that works with it.

The bucket has the records and the kept weights. A machine writes a record into its copy, and then
into the bucket; whoever reads brings the copy up to date first. What runs (checkpoints, logs,
studies) stays in the copy. What could not be written into the bucket waits in the folder `.to-send`
of the copy, and is sent by the next process that writes or begins a sweep.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.compute as pc

from harness.claims import POLL_SECONDS
from harness.files import cache_folder, digest
from harness.locks import busy
from harness.owners import Owner
from harness.remote import SCHEME, RemoteAway, RemoteFolder, RemoteObject
from harness.trials.reading import Reading
from harness.trials.record import SCHEMA, Record
from harness.trials.record_files import READ_ERRORS, KeyRange, read_rows
from harness.trials.remote_claims import RUNNING, RemoteClaim, living
from harness.trials.store import SMALL_FILES, Store

DOWNLOADS = 16
"""Records that are fetched at a time"""
QUIET_SECONDS = 60.0
"""Time between two sentences about a bucket that stays away"""
_SUFFIX, _UNFINISHED = ".parquet", "-unfinished.parquet"
_logger = logging.getLogger(__name__)


def store_at(place: str | Path) -> Store:
    """The store at an address `s3://...`, or in a folder.

    Raises UserError for an address that is not one. It asks no bucket yet.
    """
    return RemoteStore(str(place)) if str(place).startswith(SCHEME) else Store(place)


class RemoteStore(Store):
    """A store whose records are in a bucket. `folder`: this machine's copy."""

    def __init__(self, place: str) -> None:
        self.remote = RemoteFolder(place)
        self.remote_weights = self.remote.beside(f"{self._name}-weights")
        self._warned = float("-inf")
        super().__init__(
            cache_folder() / "stores" / f"{self.remote.bucket}-{digest(place)}" / self._name
        )

    @property
    def _name(self) -> str:
        return self.remote.path.rpartition("/")[2]

    @property
    def place(self) -> str:
        return self.remote.address

    @property
    def address(self) -> str:
        return self.remote.address

    @property
    def waiting(self) -> list[Path]:
        """The records that are still to be sent to the bucket."""
        return sorted(self._to_send.glob(f"*{_SUFFIX}"))

    @property
    def _to_send(self) -> Path:
        return self.folder / ".to-send"

    def check_writable(self) -> None:
        """Raises UserError when a record could not be written into the bucket or into the copy.

        What an earlier process could not send is sent.
        """
        self.remote.check(write=True)
        super().check_writable()
        self.send()

    def kept_weights(self, key: str) -> Path:
        """The file of a trial's trained weights; it is fetched from the bucket when it has one."""
        path = self.weights(key)
        if not path.is_file():
            with self._going_on("the weights are not fetched"), suppress(FileNotFoundError):
                self.remote_weights.download(path.name, path)
        return path

    def read(
        self,
        columns: Sequence[str] = SCHEMA.names,
        where: pc.Expression | None = None,
        between: KeyRange | None = None,
    ) -> Reading:
        self.receive()
        return super().read(columns, where, between)

    def get(self, key: str) -> Record | None:
        found = super().get(key)
        if found is not None and found.finished:
            return found
        self.receive()
        return super().get(key)

    def write(self, record: Record) -> None:
        """As `Store.write`; a bucket that is away does not fail, and the record is sent later."""
        super().write(record)
        self.send()

    def _write_file(self, record: Record, path: Path, *, replace: bool = True) -> None:
        if replace and not path.name.endswith(_UNFINISHED):
            with self._going_on("a damaged record stays there"):
                self.remote.remove(path.name)
        # First what is to be sent, so that a kill at any moment leaves nothing that is never sent.
        waiting = self._to_send / path.name
        super()._write_file(record, waiting)
        try:
            super()._write_file(record, path, replace=replace)
        except FileExistsError:
            waiting.unlink(missing_ok=True)
            raise

    def send(self) -> None:
        """Write into the bucket what waits for it; of a finished trial, the weights go first."""
        with self._going_on(f"what has finished is kept in {self.folder}, and is sent later"):
            for path in self.waiting:
                with suppress(FileNotFoundError):  # another process of this machine has sent it
                    self._send_one(path)
                    path.unlink()

    def _send_one(self, path: Path) -> None:
        if path.name.endswith(_UNFINISHED):
            self.remote.upload(path, path.name)
            return
        key = path.name.removesuffix(_SUFFIX)
        weights = self.weights(key)
        if weights.is_file() and not self.remote_weights.has(weights.name):
            self.remote_weights.upload(weights, weights.name)
        if not self.remote.has(path.name):  # of two equal results, the first one stays
            self.remote.upload(path, path.name)
        self.remote.remove(f"{key}{_UNFINISHED}")

    def receive(self) -> None:
        """Bring the copy up to date: fetch what is new, and then drop what the bucket has not.

        What waits to be sent stays.
        """
        with self._going_on(f"only the copy {self.folder} is read"):
            while not self._received():
                pass  # a file was folded into another one this moment, which is in the next listing

    def _received(self) -> bool:
        # In this order: a record of ours that is sent meanwhile is still seen somewhere.
        here = {path.name: path.stat().st_mtime_ns for path in self._records()}
        waiting = {path.name for path in self.waiting}
        there = {name: seen for name, seen in self.remote.names().items() if name.endswith(_SUFFIX)}
        new = [
            name
            for name, seen in there.items()
            if name not in waiting and _differs(name, here.get(name), seen)
        ]
        with ThreadPoolExecutor(DOWNLOADS) as pool:
            fetched = list(pool.map(lambda name: self._fetched(name, there[name]), new))
        if not all(fetched):
            return False
        for name in here.keys() - there.keys() - waiting:
            (self.folder / name).unlink(missing_ok=True)
        return True

    def _records(self) -> list[Path]:
        return [path for path in self.folder.glob("[!.]*.parquet") if path.is_file()]

    def _fetched(self, name: str, seen: RemoteObject) -> bool:
        """Fetch a record; whether it was still there. One that arrives damaged is fetched twice."""
        path = self.folder / name
        try:
            self.remote.download(name, path)
            try:
                read_rows(path)
            except READ_ERRORS:
                self.remote.download(name, path)
        except FileNotFoundError:
            return False
        os.utime(path, ns=(seen.modified, seen.modified))
        return True

    def compact(self, at_least: int = SMALL_FILES) -> int:
        """As `Store.compact`, and the same in the bucket: first the new files, then the old ones.

        Nothing is folded while records wait to be sent. When the bucket goes away meanwhile, the
        copy gets the old files again from there.
        """
        before = {path.name for path in self._records()}
        if self.waiting:
            return 0
        folded = super().compact(at_least)
        after = {path.name for path in self._records()}
        with self._going_on("it is folded later"), suppress(FileNotFoundError):
            for name in sorted(after - before):
                self.remote.upload(self.folder / name, name)
            for name in sorted(before - after):
                self.remote.remove(name)
        return folded

    @contextmanager
    def claimed(self, key: str, what: str) -> Iterator[None]:
        claim, said = RemoteClaim(self.remote, key, self.running(key)), False
        with super().claimed(key, what):
            while owner := self._taken(claim):
                if not said:
                    busy(f"{owner} works on {what}")
                said = True
                time.sleep(POLL_SECONDS)
            try:
                yield
            finally:
                claim.release()

    def _taken(self, claim: RemoteClaim) -> Owner | None:
        with self._going_on("another machine may run the same trial"):
            return claim.take()
        return None

    def owner(self, key: str) -> Owner | None:
        here = super().owner(key)
        if here is None:
            with self._going_on("only this machine is asked"):
                found = living(self.remote, key)
                return found[1] if found else None
        return here

    def leave_note(self, note: Path) -> None:
        super().leave_note(note)
        with self._going_on("other machines are not told"):
            self.remote.put(self._name_of(note), b"")

    def has_note(self, note: Path) -> bool:
        with self._going_on("other machines are not heard"):
            return super().has_note(note) or self.remote.has(self._name_of(note))
        return False

    def remove_note(self, note: Path) -> None:
        super().remove_note(note)
        with self._going_on("a note stays there"):
            self.remote.remove(self._name_of(note))

    def _name_of(self, note: Path) -> str:
        parts = note.relative_to(self.running_folder).parts
        return f"{RUNNING}/{'.'.join(parts)}"

    @contextmanager
    def _going_on(self, how: str) -> Iterator[None]:
        """In the block, a bucket that is away is no error; how one goes on is said now and then."""
        try:
            yield
        except RemoteAway as why:
            if time.monotonic() - self._warned > QUIET_SECONDS:
                self._warned = time.monotonic()
                _logger.warning("%s; %s", why, how)


def _differs(name: str, here: int | None, there: RemoteObject) -> bool:
    """Whether an object is to be fetched. Only what has not finished is ever written anew."""
    return here is None or (name.endswith(_UNFINISHED) and here != there.modified)
