"""Named arrays in the cache: built once, and memory-mapped by every reader."""

import errno
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import shared_cache
from harness.files import discard, written_whole
from harness.locks import lock_beside, locked
from harness.manifests import MANIFEST, damage, seal, sealed_files

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SharedArrays:
    """Named arrays that every process builds alike, so that one builds them for all."""

    folder: Path
    title: str
    """The arrays in words"""
    build: Callable[[], Mapping[str, np.ndarray]]

    @property
    def damage(self) -> str | None:
        """Fault of the folder; None: the arrays can be read."""
        return damage(self._manifest)

    @property
    def missing(self) -> bool:
        """Whether the arrays are to be built: this machine and a shared cache do not have them."""
        return self.damage is not None and not shared_cache.has(self._manifest)

    @property
    def _manifest(self) -> Path:
        return self.folder / MANIFEST

    def read(self) -> Mapping[str, np.ndarray]:
        """The arrays, memory-mapped.

        When the folder is not there or is damaged, one process fetches it from the shared cache or
        builds it, and the others wait for it. When it cannot be written, for example on a full
        disk, the arrays are those in memory.
        """
        if self.damage:
            with locked(lock_beside(self.folder), self.title):
                if (why := self.damage) and not self._fetched():
                    if self.folder.exists():
                        _logger.warning("%s; %s is built again", why, self.folder)
                    arrays = self.build()
                    try:
                        _save_arrays(self.folder, arrays)
                    except OSError as error:
                        _logger.warning("%s is not kept: %s", self.folder, error)
                        return arrays
                    shared_cache.send(self._manifest)
        else:
            shared_cache.offer(self._manifest)
        files = sealed_files(self._manifest)
        return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in files}

    def _fetched(self) -> bool:
        """Whether the shared cache had the arrays; they are here then."""
        return shared_cache.fetch(self._manifest) and self.damage is None


def save_array(path: Path, array: np.ndarray) -> None:
    """Write a file of NumPy. Raises OSError when the disk has no room for it."""
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    try:  # NumPy does not hear that the last kilobytes, which C keeps to the end, find no room
        np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None


def _save_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with written_whole(folder) as temporary:
        temporary.mkdir()
        for name, array in arrays.items():
            save_array(temporary / f"{name}.npy", array)
        seal(temporary / MANIFEST, sorted(temporary.glob("*.npy")))
        discard(folder)  # what is damaged
