"""Places on this machine of the files that a sweep names on another machine.

A trial names its files as the machine does that began the sweep, in its key and its record, too.
`harness.sweeps.workers.files` brings the files here; what opens one asks `here`.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PosixPath
from typing import Any


@dataclass(frozen=True)
class Relocation:
    """Meaning of the paths of another machine on this one."""

    root: Path
    """The folder that stands for `/` of the other machine; `/`: the files have the same paths"""
    folder: Path
    """The working directory of the sweep on the other machine"""
    home: Path
    """The home folder of the user on the other machine"""

    def place(self, path: Path) -> Path:
        """The path on this machine for an absolute or relative one on the other."""
        named = self.home / Path(*path.parts[1:]) if path.parts[:1] == ("~",) else path
        return self.root / os.path.normpath(self.folder / named).lstrip("/")


_relocation: Relocation | None = None


def relocate(relocation: Relocation | None) -> None:
    """From now on, this process opens the files of another machine where they lie here.

    Its working directory stands for that of the sweep, because plugins and suites may open relative
    paths themselves. None: it opens the files of this machine again.
    """
    global _relocation
    _relocation = relocation
    folder = here(Path())
    if folder.is_dir():  # it is missing where nothing is named by a path
        os.chdir(folder)


def here(path: Path) -> Path:
    """The place on this machine of what a path names where the sweep began.

    It is the path itself outside of a cluster, and for what has not travelled.
    """
    if _relocation is None:
        return path
    place = _relocation.place(path)
    return place if place.exists() else path


class TravelledPath(PosixPath):
    """A path of another machine that opens the file where it lies here.

    As a text it stays the path of the other machine, so keys and records are the same everywhere.
    """

    def __fspath__(self) -> str:
        return str(here(Path(str(self))))


def travelled(value: Any) -> Any:
    """The value of a configuration, of which a path opens the file where it lies here."""
    return TravelledPath(value) if _relocation and isinstance(value, Path) else value
