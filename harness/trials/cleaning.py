"""Removable files: caches, weights of no trial, and what killed processes left behind.

All of it can be made again, or is of use to nobody. What is locked, or was used within the last
hour, is left where it is.
"""

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.files import Stamp, cache_folder, discard, unsealed
from harness.locks import lock_beside
from harness.trials.record_files import COMPACTED
from harness.trials.store import Store
from harness.trials.store_folders import LOG_NAME

IN_USE_SECONDS = 3600
"""Age in seconds below which a file may be in use now"""
CACHES = {
    "travelled": "files that sweeps brought from another machine",
    "tokens": "tokenised corpora",
    "overlaps": "what corpora have of test sets",
    "subsets": "label subsets",
    "artefacts": "artefacts of methods, such as frozen vectors",
    "stages": "states of stages that trials share",
    "encoders": "encoders that trials have trained, for others that start from them",
    "embeddings": "vectors that `harness eval --keep-embeddings` kept",
}
"""Folder of the cache -> what is in it"""
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.(tmp|gone)|\.probe-[0-9a-f]{32}")
_STUDY = re.compile(r".+\.journal(\.lock|\.damaged-[0-9]+)?")
_WEIGHTS = re.compile(r"[0-9a-f]{32}\.(safetensors|json|.+\.parquet)")


@dataclass(frozen=True)
class Removable:
    """Files and folders of one kind."""

    name: str
    purpose: str
    """A few words about them"""
    candidates: list[Path]
    free: Callable[[Path], bool]
    """Whether a candidate is not in use"""

    @cached_property
    def paths(self) -> list[Path]:
        """The candidates that are not in use."""
        return [path for path in self.candidates if self.free(path)]

    @cached_property
    def size(self) -> int:
        """The bytes of what can be removed."""
        return sum(map(size_of, self.paths))

    def remove(self, warn: Callable[[str], None]) -> int:
        """Remove what is still not in use, and return how many bytes that were.

        `warn`: called with a sentence about everything that cannot be removed.
        """
        made = 0
        for path in filter(self.free, self.paths):
            size = size_of(path)
            try:
                discard(path)
                made += size
            except OSError as error:
                warn(f"{path} cannot be removed ({error.strerror})")
        return made


def removables(stores: Sequence[Store]) -> Iterator[Removable]:
    """The removable parts of the cache and of these stores.

    Raises UserError for a store that cannot be read.
    """
    cache = cache_folder()
    for name, purpose in CACHES.items():
        yield Removable(name, purpose, _children(cache / name), _unused)
    changed = [path for path in _children(cache / "digests") if _outdated(path)]
    yield Removable("digests", "digests of large files that have changed", changed, _unused)
    folders = [cache]
    for store in stores:
        yield from _of_store(store)
        folders += [store.folder, store.weights_folder]
    halves = [path for folder in folders for path in _temporary_files(folder)]
    yield Removable("temporary files", "what killed processes wrote half", halves, _unused)


def _of_store(store: Store) -> Iterator[Removable]:
    """Weights, logs, studies and checkpoints that no trial of the store needs."""
    unreadable = [name for name, _ in store.read().unreadable]
    rows = store.read(("evaluates", "search")).table.to_pylist()
    finished = {row["key"] for row in rows if row["status"] == "finished"}
    # A damaged file may be the record of the trial whose weights these are.
    damaged = {Path(name).stem for name in unreadable}
    measured = finished | damaged | {row["evaluates"] for row in rows}
    tried, searches = damaged | {row["key"] for row in rows}, {row["search"] for row in rows}
    weights = [path for path in _children(store.weights_folder) if _WEIGHTS.fullmatch(path.name)]
    lost = [path for path in weights if path.name.partition(".")[0] not in measured]
    # A folder beside a store may be a link of a stranger: only files of our names are ours.
    logs = [path for path in _children(store.logs_folder) if LOG_NAME.fullmatch(path.name)]
    logs = [path for path in logs if path.stem not in tried]
    studies = [path for path in _children(store.studies_folder) if _STUDY.fullmatch(path.name)]
    studies = [path for path in studies if not _is_of(path, searches)]
    if any(name.startswith(COMPACTED) for name in unreadable):
        lost, logs, studies = [], [], []

    def ended_long_ago(path: Path) -> bool:
        # A trial that runs, or a search of a running sweep, need not have a record yet.
        return _unused(path) and not store.at_work

    yield Removable("weights", f"weights of no trial of {store.folder}", lost, ended_long_ago)
    yield Removable("logs", f"output of no trial of {store.folder}", logs, ended_long_ago)
    purpose = f"studies that are damaged, or of no search of {store.folder}"
    yield Removable("studies", purpose, studies, ended_long_ago)
    ended = [path for path in _children(store.running_folder) if path.name in finished]
    yield Removable("running", f"checkpoints of finished trials of {store.folder}", ended, _unused)


def _is_of(study: Path, searches: set[str]) -> bool:
    """Whether a file of the studies' folder is a sound study of one of these searches."""
    damaged = ".damaged-" in study.name
    return not damaged and any(search in study.name for search in searches if search)


def size_of(path: Path) -> int:
    """The bytes of a file, or of all files of a folder."""
    return sum(stat.st_size for stat in _stats(path))


def _children(folder: Path) -> list[Path]:
    """The content of a folder, without temporary files; nothing when there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not _TEMPORARY.fullmatch(path.name))


def _temporary_files(folder: Path) -> Iterator[Path]:
    """The temporary files and folders anywhere in a folder."""
    for parent, folders, files in os.walk(folder):
        halves = [name for name in (*folders, *files) if _TEMPORARY.fullmatch(name)]
        folders[:] = [name for name in folders if name not in halves]
        yield from (Path(parent) / name for name in halves)


def _outdated(entry: Path) -> bool:
    """Whether a remembered digest is of a file that is gone or has changed, or is damaged."""
    try:
        stamp: list[Any] = unsealed(entry.read_bytes())["stamp"]
        return list(Stamp.of(Path(stamp[0]))) != stamp
    except (OSError, ValueError):
        return True


def _unused(path: Path) -> bool:
    """Whether nobody has locked or touched a file or folder within the last hour."""
    # The lock is in a folder (stages) or beside it (arrays), or it is what is asked about.
    locks = {path / "lock", lock_beside(path), path}
    latest = max((stat.st_mtime for stat in _stats(path)), default=0.0)
    return time.time() - latest > IN_USE_SECONDS and not any(map(_locked, locks))


def _locked(lock: Path) -> bool:
    """Whether a process holds this lock; the file stays as it is."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # there is no such lock
    return False


def _stats(path: Path) -> Iterator[os.stat_result]:
    """The state of a path, and of everything in it; what vanishes meanwhile is left out."""
    paths = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    for each in paths:
        try:
            yield each.lstat()
        except OSError:
            continue
