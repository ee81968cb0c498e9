"""SentEval's data sets: one tar archive whose table of contents is read once."""

import functools
import tarfile
from pathlib import Path

from harness.data.hub import data_file
from harness.errors import UserError

SIMCSE = "princeton-nlp/datasets-for-simcse"
ARCHIVE = "senteval.tar"


def archive() -> Path:
    """SentEval's data sets as one archive."""
    return data_file(SIMCSE, ARCHIVE)


def lines(member: str, path: Path | None = None, encoding: str = "utf-8") -> list[str]:
    """The lines of a member of SentEval's archive, wherever its folder `downstream` lies in it.

    Raises UserError when the archive or the member is missing or damaged.
    """
    path = path or archive()
    try:
        stat = path.stat()
        entries, damage = _contents(path, (stat.st_size, stat.st_mtime_ns))
        for entry in entries:
            if entry.name == member or entry.name.endswith("/" + member):
                with tarfile.open(path) as tar:
                    file = tar.extractfile(entry)
                    assert file is not None, member
                    return split_lines(file.read().decode(encoding))
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError) as error:
        damage = str(error)
    if damage:
        raise UserError(f"{path}, {member}: cannot be read ({damage})")
    raise UserError(f"{path} has no member {member}")


@functools.lru_cache(maxsize=4)
def _contents(path: Path, _version: tuple[int, int]) -> tuple[list[tarfile.TarInfo], str]:
    """Headers of the members, and what stopped their reading; members in front of a damage stay readable.

    `_version`, size and time, makes a new file at the same path a new entry of the cache.
    """
    entries: list[tarfile.TarInfo] = []
    try:
        with tarfile.open(path) as tar:
            entries.extend(tar)
    except (tarfile.TarError, OSError, EOFError) as error:
        return entries, str(error)
    return entries, ""


def split_lines(text: str) -> list[str]:
    """Lines as files have them: `str.splitlines` would also cut at form feeds and Unicode separators."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")
