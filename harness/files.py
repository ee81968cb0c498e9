"""Files: digests by content, writes that are whole or not there, and the cache of derived files.

Everything here is about bytes on a disk; nothing knows what the bytes mean.
"""

import functools
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.inputs import regular_file

PACKAGE = Path(__file__).resolve().parent
SHIPPED = PACKAGE / "shipped"
"""Where a wheel has what a checkout has beside the package (pyproject.toml says what goes there)"""
IN_A_CHECKOUT = {
    "methods": PACKAGE.parent / "methods",
    "search_spaces": PACKAGE.parent / "search_spaces",
    "reported": PACKAGE.parent / "results" / "reported",
}


def shipped(name: str) -> Path:
    """The folder `name` (a key of IN_A_CHECKOUT) that comes with harness.

    An installed wheel has it inside the package, a checkout has it beside the package.
    """
    installed = SHIPPED / name
    return installed if installed.is_dir() else IN_A_CHECKOUT[name]


def cache_folder() -> Path:
    """The folder of derived files (tokenised corpora, artefacts, digests).

    It is the folder that `HARNESS_CACHE` names, or else ~/.cache/harness.
    """
    return Path(os.environ.get("HARNESS_CACHE") or Path.home() / ".cache" / "harness")


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
        stat = regular_file(path).stat()
        content = _content_digest(str(path.resolve()), stat.st_size, stat.st_mtime_ns)
        lines.append(f"{path.name}\0{content}\n")
    return digest("".join(lines))


@functools.cache
def _content_digest(path: str, size: int, modified: int) -> str:
    """SHA-256 of a file, remembered on disk by path, size and time: large models are read once."""
    remembered = cache_folder() / "digests" / digest(f"{path}\0{size}\0{modified}", 32)
    try:
        return remembered.read_text()
    except OSError:
        pass  # not remembered yet
    with Path(path).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        with written_whole(remembered) as temporary:
            temporary.write_text(found)
    except OSError:
        pass  # a cache that cannot be written costs time, nothing else
    return found
