"""Files: digests by content, writes that are whole or not there, and the cache of derived files.

Everything here is about bytes on a disk; nothing knows what the bytes mean.
"""

import functools
import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import UserError
from harness.inputs import regular_file, why

_logger = logging.getLogger(__name__)
PACKAGE = Path(__file__).resolve().parent
SHIPPED = PACKAGE / "shipped"
"""Folder in which a wheel has what a checkout has beside the package (see pyproject.toml)"""
IN_A_CHECKOUT = {
    "methods": PACKAGE.parent / "methods",
    "search_spaces": PACKAGE.parent / "search_spaces",
    "reported": PACKAGE.parent / "results" / "reported",
}
LARGE_FILE = 256 * 2**20
"""Bytes of a file that takes a quarter of a second to read.

What is larger, such as the weights of a model, is not read anew by every process."""


def shipped(name: str) -> Path:
    """The folder `name` (a key of IN_A_CHECKOUT) that comes with harness.

    An installed wheel has it inside the package, a checkout has it beside the package.
    """
    installed = SHIPPED / name
    return installed if installed.is_dir() else IN_A_CHECKOUT[name]


def cache_folder() -> Path:
    """The folder of derived files (tokenised corpora, artefacts, digests).

    It is the folder that `HARNESS_CACHE` names, or else ~/.cache/harness. Raises UserError for a
    bucket.
    """
    named = os.environ.get("HARNESS_CACHE")
    if named and "://" in named:
        raise UserError(
            f"HARNESS_CACHE names {named}, but is the folder of this machine; name what machines "
            "share with HARNESS_SHARED_CACHE"
        )
    return Path(named or Path.home() / ".cache" / "harness")


def check_cache() -> None:
    """Raises UserError when nothing could be written into the cache; it leaves nothing behind."""
    named = os.environ.get("HARNESS_CACHE")
    try:
        probe_writable(cache_folder())
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows the home folder
        what = f"HARNESS_CACHE names {named}, which" if named else "the cache ~/.cache/harness"
        raise UserError(
            f"{what} cannot be written ({why(error)}); set HARNESS_CACHE to a folder that can"
        ) from None


def probe_writable(folder: Path) -> None:
    """Raises OSError when a file could not be written into a folder, which need not be there yet.

    It leaves nothing behind.
    """
    folder = folder.absolute()
    there = next(each for each in (folder, *folder.parents) if _is_there(each))
    probe = there / f".probe-{uuid.uuid4().hex}"
    try:
        with written_whole(probe) as temporary:
            temporary.write_bytes(bytes(64 * 1024))  # a full disk still has room for a name
    finally:
        probe.unlink(missing_ok=True)


def _is_there(path: Path) -> bool:
    """Whether a path is taken, if only by a link to nothing. OSError for one that cannot be."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


@contextmanager
def written_whole(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary path; the file or folder that is written there becomes `path`.

    The folder of `path` is made first. When the block raises, `path` stays as it was and nothing is
    left behind. A reader never sees half a file, since a rename happens whole or not at all; a loss
    of power does not change that, because the disk has the content before the name. `replace`:
    whether a file may be there already; without it, FileExistsError is raised for one that is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        for written in (temporary, *temporary.rglob("*")):
            _sync(written)
        if replace:
            temporary.replace(path)
        else:
            _name_once(temporary, path)
        _sync(path.parent)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until the disk has the content of a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some file systems cannot do it for folders
            raise
    finally:
        os.close(descriptor)


def _name_once(temporary: Path, path: Path) -> None:
    """Give a file the name `path`. Raises FileExistsError when another file has it."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: nearly as good
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        temporary.replace(path)


def discard(path: Path) -> None:
    """Remove a file or a folder. A reader finds all of it or nothing."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with suppress(FileNotFoundError):  # another process was quicker
        path.rename(aside)
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)


def digest(content: str | bytes, digits: int = 16) -> str:
    """The first hexadecimal `digits` (at most 64) of the SHA-256 of a text or of bytes."""
    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:digits]


def digest_of(value: Any, digits: int = 16) -> str:
    """The digest of a value's JSON text with sorted keys; what JSON lacks counts as text."""
    return digest(json.dumps(value, sort_keys=True, default=str), digits)


def digest_files(paths: Iterable[Path]) -> str:
    """Digest of files by base name and content; 16 hexadecimal digits.

    Raises UserError for what is not a regular file.
    """
    lines = []
    for path in paths:
        stamp = Stamp.of(regular_file(path))
        kept = stamp.size > LARGE_FILE and stamp.is_old_enough
        sha256 = _remembered(stamp) if kept else _sha256(stamp)
        lines.append(f"{path.name}\0{sha256}\n")
    return digest("".join(lines))


def content_digest(path: Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits. A process reads a file once until it changes."""
    return _sha256(Stamp.of(path))


def sealed_json(value: Any) -> str:
    """A JSON text that has its own digest, so that `unsealed` notices a single flipped bit."""
    return json.dumps({"content": value, "digest": digest_of(value)})


def unsealed(text: str | bytes) -> Any:
    """The value of a text that `sealed_json` made. Raises ValueError when the text has changed."""
    with suppress(KeyError, TypeError):
        found = json.loads(text)
        if found["digest"] == digest_of(found["content"]):
            return found["content"]
    raise ValueError("it is damaged")


def described(manifest: str | bytes) -> dict[str, tuple[int, str]]:
    """File -> (bytes, SHA-256), as the text of a manifest says (`harness.manifests`).

    Raises ValueError when it has changed, when it is no manifest, and for a name that leads out of
    its folder.
    """
    try:
        files = {
            name: (int(facts["bytes"]), str(facts["sha256"]))
            for name, facts in unsealed(manifest).items()
        }
    except (AttributeError, KeyError, TypeError):
        raise ValueError("it is no manifest") from None
    for name in (part for file, (_, sha256) in files.items() for part in (file, sha256)):
        if "/" in name or name.startswith("."):
            raise ValueError(f"it names {name!r}")
    return files


class Stamp(NamedTuple):
    """Identity of a file's content without reading it: path, inode, size and times.

    The time of change (`ctime`) is set by the system at every change of the content, and no program
    can set it back. So a file that was written in place, or put in place of another one, has
    another stamp even if its size and its time of modification are the same. A copy or a new hard
    link has another stamp as well, and is read once more. So has a file of another device that is
    mounted at the same place: images of disks are made with equal times. What no stamp shows is a
    bit that the disk itself lost, and a file server without times of change.
    """

    path: str
    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """The stamp of a file. Raises OSError when there is none."""
        stat = path.stat()
        times = stat.st_mtime_ns, stat.st_ctime_ns
        return cls(str(path.resolve()), stat.st_dev, stat.st_ino, stat.st_size, *times)

    @property
    def is_old_enough(self) -> bool:
        """Whether the last change is so long ago that another one would change the stamp.

        The clocks of file systems tick in steps of up to two seconds.
        """
        return time.time() - self.changed / 1e9 > 2


def _sha256(stamp: Stamp) -> str:
    return _hashed_once(stamp) if stamp.is_old_enough else _hashed_once.__wrapped__(stamp)


@functools.cache
def _hashed_once(stamp: Stamp) -> str:
    with Path(stamp.path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def _remembered(stamp: Stamp) -> str:
    """The SHA-256 of a large file, which the cache remembers for other processes."""
    entry = cache_folder() / "digests" / f"{digest_of(stamp, 32)}.json"
    try:
        known = unsealed(entry.read_bytes())
        if known["stamp"] == list(stamp):
            return str(known["sha256"])
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        _logger.warning("%s: %s; %s is read again", entry, error, stamp.path)
    sha256 = _hashed_once(stamp)
    # A cache that cannot be written costs time, nothing else.
    with suppress(OSError), written_whole(entry) as temporary:
        temporary.write_text(sealed_json({"stamp": stamp, "sha256": sha256}))
    return sha256
