"""The copy that a machine has of a store in a bucket: a folder with the same files.

Whoever reads the store fetches all that is new. Whoever asks for one key fetches what may have it:
the name of a trial's own file begins with its key, and the keys of a compacted file are an object
beside it, in the folder `.keys`. So a worker has the records that it needs, and no others.

What the machine has written and the bucket has not got yet is in the folder `.to-send` of the copy,
so it is sent by whichever process comes next.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.remote import RemoteFolder, RemoteObject
from harness.trials.record_files import COMPACTED, READ_ERRORS, UNFINISHED, read_rows

AT_A_TIME = 16
"""Records that are fetched at a time"""
KEYS = ".keys"
"""The folder with the keys of each compacted file, under the name of the file"""
SUFFIX = ".parquet"
"""The end of the names of records"""


class RemoteCopy:
    """A folder of records with the same files as a folder of a bucket.

    All of it raises RemoteAway when the bucket does not answer.
    """

    def __init__(self, remote: RemoteFolder, folder: Path, weights: Path) -> None:
        """`weights`: the folder of the trained weights, which stands beside the records."""
        self.remote, self.folder, self.weights = remote, folder, weights
        self.remote_weights = remote.beside(weights.name)
        self.to_send = folder / ".to-send"

    @contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        """In the block, this process changes which records are here.

        alone: no other process of this machine may, because the new names are not in the bucket
        yet. Those that receive at once do not disturb each other.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".copy.lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield  # the end of the file's use, or of the process, frees it

    @property
    def records(self) -> dict[str, int]:
        """Name -> time of modification, of the records that are here."""
        times = {}
        for path in self.folder.glob(f"[!.]*{SUFFIX}"):
            with suppress(FileNotFoundError):  # another process receives or folds
                times[path.name] = path.stat().st_mtime_ns
        return times

    @property
    def waiting(self) -> list[Path]:
        """The records that are still to be sent."""
        return sorted(self.to_send.glob(f"*{SUFFIX}"))

    def send(self) -> None:
        """Send what waits; of a finished trial, the weights go first."""
        for path in self.waiting:
            with suppress(FileNotFoundError):  # another process of this machine has sent it
                if path.name.endswith(UNFINISHED):
                    self.remote.upload(path, path.name)
                else:
                    self._send_finished(path)
                path.unlink()

    def _send_finished(self, path: Path) -> None:
        key = path.name.removesuffix(SUFFIX)
        weights = self.weights / f"{key}.safetensors"
        for kept in (weights, *sorted(self.weights.glob(f"{key}.*.parquet"))):
            if kept.is_file() and not self.remote_weights.has(kept.name):
                self.remote_weights.upload(kept, kept.name)
        # Of two equal results, the first one stays.
        self.remote.create(path.name, path.read_bytes())
        self.remote.remove(f"{key}{UNFINISHED}")

    def send_folded(self, before: Mapping[str, int]) -> None:
        """Do in the bucket what a compaction did here: first the new files, then the old ones.

        before: the records before the compaction, since when the copy was `held` alone. When this
        ends halfway, the copy gets the old files again from the bucket, and only then loses the
        new ones. A next attempt, which another machine has sent meanwhile, is not removed.
        """
        after = self.records
        for name in sorted(after.keys() - before.keys()):
            if name.startswith(COMPACTED):
                keys = read_rows(self.folder / name, ())["key"].to_pylist()
                self.remote.put(f"{KEYS}/{name}", "\n".join(keys).encode())
                self.remote.upload(self.folder / name, name)
        old = before.keys() - after.keys()
        there = self.remote.names() if old else {}
        both = old & there.keys()
        gone = [name for name in both if not _differs(name, before[name], there[name])]
        # The keys go last: without them, the whole file would be fetched.
        self.remote.remove(*gone)
        self.remote.remove(*(f"{KEYS}/{name}" for name in gone if name.startswith(COMPACTED)))

    def receive_key(self, key: str) -> None:
        """Fetch what may have this key."""
        while not self._fetched_all(self.remote.names(), key):
            pass  # as in `receive`

    def receive(self) -> None:
        """Fetch what is new in the bucket, and then drop what it has no more.

        What waits to be sent stays.
        """
        with self.held(alone=False):
            complete = False
            while not complete:  # a file may be folded into another one, as the next listing says
                # In this order: a record of ours that is sent meanwhile is still seen somewhere.
                here, waiting = self.records, {path.name for path in self.waiting}
                there = self.remote.names()
                complete = self._fetched_all(there)
            for name in here.keys() - there.keys() - waiting:
                (self.folder / name).unlink(missing_ok=True)
            for path in (self.folder / KEYS).glob("*"):
                if path.name not in there:
                    path.unlink(missing_ok=True)

    def _fetched_all(self, there: Mapping[str, RemoteObject], key: str = "") -> bool:
        """Fetch the records that are not here, or of them those that may have `key`.

        Returns whether all of them were still there.
        """
        here, waiting = self.records, {path.name for path in self.waiting}
        new = [
            name
            for name, seen in there.items()
            if name.endswith(SUFFIX)
            and name not in waiting
            and _differs(name, here.get(name), seen)
            and (name.startswith(key) or (name.startswith(COMPACTED) and self._has(name, key)))
        ]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return all(pool.map(lambda name: self._fetched(name, there[name]), new))

    def _has(self, name: str, key: str) -> bool:
        """Whether a compacted file of the bucket has a key; its keys are fetched once."""
        path = self.folder / KEYS / name
        if not path.exists():
            try:
                self.remote.download(f"{KEYS}/{name}", path)
            except FileNotFoundError:
                return True  # no compaction has made the file, so all of it is to be read
        return key.encode() in path.read_bytes()

    def _fetched(self, name: str, seen: RemoteObject) -> bool:
        """Fetch a record; whether it was still there. One that arrives damaged is fetched twice."""
        path = self.folder / name
        try:
            self.remote.download(name, path)
            try:
                read_rows(path)
            except READ_ERRORS:
                self.remote.download(name, path)
            os.utime(path, ns=(seen.modified, seen.modified))
        except FileNotFoundError:
            return False
        return True


def _differs(name: str, here: int | None, there: RemoteObject) -> bool:
    """Whether an object is to be fetched. Only what has not finished is ever written anew."""
    return here is None or (name.endswith(UNFINISHED) and here != there.modified)
