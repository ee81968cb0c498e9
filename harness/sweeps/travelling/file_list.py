"""The list of the files that a trial names by paths, as one machine tells it another."""

from dataclasses import asdict, dataclass
from pathlib import Path

from harness.files import content_digest, sealed_json, unsealed


@dataclass(frozen=True)
class ListedFile:
    """A file of the machine that began the sweep."""

    path: str
    """Absolute, without links"""
    size: int
    sha256: str

    @property
    def is_here(self) -> bool:
        """Whether this machine has the same file under the same path."""
        return self.is_at(Path(self.path))

    def is_at(self, path: Path) -> bool:
        """Whether this machine has the same content at a path."""
        try:
            return path.stat().st_size == self.size and content_digest(path) == self.sha256
        except OSError:
            return False


@dataclass(frozen=True)
class FileList:
    """The files that a trial names by paths."""

    folder: str
    """The working directory of the sweep"""
    home: str
    files: list[ListedFile]
    links: dict[str, str]
    """Path by which a file or folder is named -> its path without links, where that is another"""

    def text(self) -> str:
        """The list as `read` reads it."""
        return sealed_json(asdict(self))

    @classmethod
    def read(cls, text: bytes) -> "FileList":
        """The list of a text that `text` gave. Raises ValueError when it has changed."""
        found = unsealed(text)
        return cls(**{**found, "files": [ListedFile(**each) for each in found["files"]]})
