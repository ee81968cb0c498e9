"""A store in a bucket, `s3://BUCKET/FOLDER`, with a copy on each machine that works with it.

The bucket has the records, the kept weights and the logs. A machine writes a record into its copy,
and then into the bucket; whoever reads brings the copy up to date first, or what it has of the one
key that is asked for (`remote_copy`). What runs
(checkpoints, studies) stays in the copy. A bucket that is away fails nothing: the copy is read, and
what it has new is sent later.
"""

import logging
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from harness.claims import held
from harness.errors import UserError
from harness.files import cache_folder, digest
from harness.owners import Owner
from harness.remote import SCHEME, RemoteAway, RemoteFolder
from harness.trials.record import Record
from harness.trials.record_files import UNFINISHED
from harness.trials.remote_claims import NOTES, RemoteClaim, owner_in, progress_of_others, send_note
from harness.trials.remote_copy import RemoteCopy
from harness.trials.store import SMALL_FILES, Store
from harness.trials.store_folders import PROGRESS, StoreFolders, logged_keys

QUIET_SECONDS = 60.0
"""Time between two sentences about a bucket that stays away"""
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")
"""The beginning of an address; a drive of Windows has one letter"""
_logger = logging.getLogger(__name__)


def store_at(location: str | Path) -> Store:
    """The store at an address `s3://...`, or in a folder.

    Raises UserError for another address. It asks no bucket yet.
    """
    if str(location).startswith(SCHEME):
        return RemoteStore(str(location))
    if _ADDRESS.match(str(location)):
        raise UserError(f"{location}: write a folder, or a bucket as {SCHEME}BUCKET/FOLDER")
    return Store(location)


class RemoteStore(Store):
    """A store whose records are in a bucket. `folder`: this machine's copy."""

    def __init__(self, place: str) -> None:
        self.remote = RemoteFolder(place)
        name = self.remote.path.rpartition("/")[2]
        # Two servers may have buckets of one name.
        beside = f"{self.remote.bucket}-{digest(f'{self.remote.endpoint} {self.remote.path}')}"
        super().__init__(cache_folder() / "stores" / beside / name)
        self.copy = RemoteCopy(self.remote, self.folder, self.weights_folder)
        self._remote_logs = self.remote.beside(self.logs_folder.name)
        self._warned = float("-inf")

    @property
    def place(self) -> str:
        return self.remote.address

    address = place

    def check_writable(self) -> None:
        """Raises UserError when a record could not be written into the bucket or into the copy.

        Claims need conditional writes, so a server without them is refused as well. What an earlier
        process could not send is sent.
        """
        self.remote.check()
        self.remote.check_conditions()
        super().check_writable()
        self.send()

    def unsent(self) -> int:
        """`Store.unsent`, after a last try to send them."""
        self.send()
        return len(self.copy.waiting)

    def kept_names(self) -> set[str]:
        with self._going_on("only the weights of this machine are seen"):
            return {*self.copy.remote_weights.names()}
        return super().kept_names()

    def kept(self, name: str) -> Path:
        """A file of weights or of cosines; it is fetched from the bucket when it has one."""
        path = super().kept(name)
        if not path.is_file():
            with self._going_on(f"{name} is not fetched"), suppress(FileNotFoundError):
                self.copy.remote_weights.download(name, path)
        return path

    def kept_log(self, key: str) -> Path:
        """The file of a trial's output; that of the bucket, unless the trial runs here."""
        path = self.log(key)
        if StoreFolders.owner(self, key) is None:
            with self._going_on("the log is not fetched"), suppress(FileNotFoundError):
                self._remote_logs.download(path.name, path)
        return path

    def logged(self) -> set[str]:
        there: set[str] = set()
        with self._going_on("only the logs of this machine are seen"):
            there = logged_keys(self._remote_logs.names())
        return there | super().logged()

    @contextmanager
    def logging(self, key: str) -> Iterator[Path]:
        """`Store.logging`; earlier attempts are fetched before, and all are sent after it."""
        with super().logging(key) as path:
            with self._going_on("earlier output is not fetched"), suppress(FileNotFoundError):
                self._remote_logs.download(path.name, path)
            try:
                yield path
            finally:
                with self._going_on("the log stays here"), suppress(FileNotFoundError):
                    self._remote_logs.upload(path, path.name)

    def get(self, key: str) -> Record | None:
        found = super().get(key)
        if found is not None and found.finished:
            return found
        with self._going_on(f"only the copy {self.folder} is read"):
            self.copy.receive_key(key)
        return super().get(key)

    def write(self, record: Record) -> None:
        """`Store.write`; without its bucket, the record is sent later."""
        super().write(record)
        self.send()

    def _write_file(self, record: Record, path: Path, *, replace: bool = True) -> None:
        if replace and not path.name.endswith(UNFINISHED):
            with self._going_on("a damaged record stays there"):
                self.remote.remove(path.name)
        # First what is to be sent, so that a kill at any moment leaves nothing that is never sent.
        waiting = self.copy.to_send / path.name
        super()._write_file(record, waiting)
        try:
            super()._write_file(record, path, replace=replace)
        except FileExistsError:
            waiting.unlink(missing_ok=True)
            raise

    def send(self) -> None:
        """Write into the bucket what waits for it."""
        with self._going_on(f"what has finished is kept in {self.folder}, and is sent later"):
            self.copy.send()

    def receive(self) -> None:
        with self._going_on(f"only the copy {self.folder} is read"):
            self.copy.receive()

    def compact(self, at_least: int = SMALL_FILES) -> int:
        """`Store.compact`, in the bucket as well; nothing is folded while a record waits."""
        if self.copy.waiting:
            return 0
        self.receive()
        with self.copy.held(alone=True):
            before = self.copy.records
            folded = super().compact(at_least)
            with self._going_on("it is folded later"):
                self.copy.send_folded(before)
        return folded

    def add(self, tables: Iterable[pa.Table]) -> None:
        """`Store.add`, in the bucket as well."""
        with self.copy.held(alone=True):
            before = self.copy.records
            super().add(tables)
            with self._going_on("the next merge writes it there"):
                self.copy.send_folded(before)

    def keep(self, name: str, path: Path) -> None:
        super().keep(name, path)
        with self._going_on("the next merge sends its weights"):
            self.copy.remote_weights.upload(path, name)

    @contextmanager
    def claimed(self, key: str, what: str) -> Iterator[None]:
        claim = RemoteClaim(self.remote, key, self.running(key))
        with super().claimed(key, what), held(lambda: self._taken(claim), claim.release, what):
            yield

    def _taken(self, claim: RemoteClaim) -> Owner | None:
        with self._going_on("another machine may run the same trial"):
            return claim.take()
        return None

    def owner(self, key: str) -> Owner | None:
        here = super().owner(key)
        if here is None:
            with self._going_on("only this machine is asked"):
                return owner_in(self.remote, key)
        return here

    def progress_elsewhere(self) -> list[str]:
        here = {path.parent.name for path in self.running_folder.glob(f"*/{PROGRESS}")}
        with self._going_on("other machines are not shown"):
            return list(progress_of_others(self.remote, here))
        return []

    def leave_note(self, note: Path) -> None:
        super().leave_note(note)
        with self._going_on("other machines are not told"):
            if note.parent == self.running_folder:  # it is for the workers of a sweep
                self.remote.put(f"{NOTES}/{note.name}", b"")
            else:
                send_note(self.remote, note.parent.name, note.name)

    def has_note(self, note: Path) -> bool:
        with self._going_on("other machines are not heard"):
            return super().has_note(note) or self.remote.has(f"{NOTES}/{note.name}")
        return False

    def remove_note(self, note: Path) -> None:
        super().remove_note(note)
        with self._going_on("a note stays there"):
            self.remote.remove(f"{NOTES}/{note.name}")

    @contextmanager
    def _going_on(self, how: str) -> Iterator[None]:
        """In the block, a bucket that is away is no error; how one goes on is said now and then."""
        try:
            yield
        except RemoteAway as why:
            if time.monotonic() - self._warned > QUIET_SECONDS:
                self._warned = time.monotonic()
                _logger.warning("%s; %s", why, how)
