"""Manifests: the size and the SHA-256 of derived files, so that damage to them is noticed.

A manifest is a file beside those that it names. It is written last: files without one are not
complete. It has a digest of itself, so damage to a manifest is noticed, too.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.files import content_digest, described, sealed_json, written_whole
from harness.inputs import why

MANIFEST = "manifest.json"
"""The name of the manifest of a whole folder"""


def seal(manifest: Path, files: Iterable[Path]) -> None:
    """Write the manifest of files that lie in its folder. Raises OSError when it cannot."""
    described_files = {
        path.name: {"bytes": path.stat().st_size, "sha256": content_digest(path)} for path in files
    }
    with written_whole(manifest) as temporary:
        temporary.write_text(sealed_json(described_files))


def sealed_files(manifest: Path) -> list[Path]:
    """The files that a manifest names. Raises OSError without one, ValueError for a damaged one."""
    return [manifest.with_name(name) for name in described(manifest.read_bytes())]


def damage(manifest: Path) -> str | None:
    """The fault of a manifest or of a file that it names: `FILE: why`. None: nothing.

    A process compares the size of a file at every call. It computes the SHA-256 at the first call
    and whenever the file has changed since: a gigabyte takes a second, and a worker opens the same
    corpus for every one of its trials.
    """
    path = manifest
    try:
        for name, (size, sha256) in described(manifest.read_bytes()).items():
            path = manifest.with_name(name)
            if path.stat().st_size != size:
                return f"{path}: it has {path.stat().st_size} bytes instead of {size}"
            if content_digest(path) != sha256:
                return f"{path}: its content has changed"
    except (OSError, ValueError) as error:
        return f"{path}: {why(error)}"
    # So `harness clean` sees when files were last used. Files of other users cannot be touched.
    with suppress(OSError):
        os.utime(manifest)
    return None
