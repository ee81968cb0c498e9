"""SentEval's data sets: one tar archive whose table of contents is read once."""

import functools
import io
import itertools
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.data.hub import data_file
from harness.errors import UserError
from harness.files import Stamp
from harness.inputs import regular_file

SIMCSE = "princeton-nlp/datasets-for-simcse"
ARCHIVE = "senteval.tar"
LARGEST_MEMBER = 2**28
"""Bytes of a member that are read; the largest of SentEval has 4 million"""
MOST_MEMBERS = 100_000
"""Members of an archive; SentEval's has some hundred"""


class _Bounded(io.FileIO):
    """A file of which nobody reads more at once than the largest member has."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to `size` bytes. Raises TarError for more, which also a damaged header may ask for."""
        if size is None or not 0 <= size <= LARGEST_MEMBER:
            raise tarfile.TarError(f"it asks for {size} bytes; at most {LARGEST_MEMBER} are read")
        return super().read(size)


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """The archive, which is not packed: what is packed could hold any number of bytes."""
    with _Bounded(path) as file, tarfile.open(fileobj=file, mode="r:") as tar:
        yield tar


def archive() -> Path:
    """The path of the archive. Raises UserError when neither mirror nor Hub has it."""
    return data_file(SIMCSE, ARCHIVE)


def lines(member: str, path: Path | None = None, encoding: str = "utf-8") -> list[str]:
    """The lines of one member of the archive, such as `MR/rt-polarity.pos`.

    It does not matter in which folder the member lies; in SentEval's own archive that is
    `downstream`. `path`: the archive; None: `archive()`. Raises UserError when the archive or the
    member is missing or damaged.
    """
    path = regular_file(path or archive())
    try:
        entries, damage = _contents(Stamp.of(path))
        for entry in entries:
            if entry.name == member or entry.name.endswith("/" + member):
                if not 0 <= entry.size <= LARGEST_MEMBER:
                    raise UserError(
                        f"{path}, {member}: it has {entry.size} bytes; at most {LARGEST_MEMBER} "
                        f"are read"
                    )
                with _opened(path) as tar:
                    file = tar.extractfile(entry)
                    if file is None:
                        raise UserError(f"{path}, {member}: it is no file")
                    return split_lines(file.read().decode(encoding))
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        damage = str(error)
    # A member that was not found may lie behind the damage.
    if damage:
        raise UserError(f"{path}, {member}: cannot be read ({damage})")
    raise UserError(f"{path} has no member {member}")


@functools.lru_cache(maxsize=4)
def _contents(archive: Stamp) -> tuple[list[tarfile.TarInfo], str]:
    """The headers of all members, and the error that ended their reading, if there was one.

    Members in front of a damage stay readable. A new file at the same path has another stamp.
    """
    # A tar archive has no index. Without the cache, every member would cost a pass over all of it.
    entries: list[tarfile.TarInfo] = []
    try:
        with _opened(Path(archive.path)) as tar:
            for entry in itertools.islice(tar, MOST_MEMBERS):
                entries.append(entry)
            if tar.next() is not None:
                return entries, f"it has more than {MOST_MEMBERS} members"
    # ValueError: numbers in a header that are none.
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        return entries, str(error)
    return entries, ""


def split_lines(text: str) -> list[str]:
    """The lines of a file's text, cut at line ends only."""
    # `str.splitlines` would also cut at form feeds and at Unicode separators.
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")
