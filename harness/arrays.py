"""Named arrays in a folder of the cache: built once, and memory-mapped by every reader."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from harness.files import discard, written_whole
from harness.locks import locked
from harness.manifests import MANIFEST, damage, seal, sealed_files

_logger = logging.getLogger(__name__)


def shared_arrays(
    folder: Path, build: Callable[[], Mapping[str, np.ndarray]]
) -> Mapping[str, np.ndarray]:
    """The named arrays of a folder, memory-mapped.

    When the folder is not there or is damaged, one process builds it and the others wait for it.
    When it cannot be written, for example on a full disk, the arrays are those in memory.
    """
    if _broken(folder):
        with locked(folder.with_suffix(".lock"), f"{folder.parent.name}/{folder.name}"):
            if why := _broken(folder):
                if folder.exists():
                    _logger.warning("%s; %s is built again", why, folder)
                arrays = build()
                try:
                    _save_arrays(folder, arrays)
                except OSError as error:
                    _logger.warning("%s is not kept: %s", folder, error)
                    return arrays
    files = sealed_files(folder / MANIFEST)
    return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in files}


def _broken(folder: Path) -> str | None:
    return damage(folder / MANIFEST)


def _save_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with written_whole(folder) as temporary:
        temporary.mkdir()
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        seal(temporary / MANIFEST, sorted(temporary.glob("*.npy")))
        discard(folder)  # what is damaged
