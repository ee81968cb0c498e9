"""Archives as SentEval's, written for a test."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_archive(path: Path, members: Mapping[str, str], encoding: str = "utf-8") -> Path:
    """Write a tar archive with these members, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, text in members.items():
            content = text.encode(encoding)
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path
