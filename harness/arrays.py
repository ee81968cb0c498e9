"""Named arrays in a folder of the cache: built once, and memory-mapped by every reader."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from harness.files import written_whole
from harness.locks import locked


def shared_arrays(
    folder: Path, build: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The named arrays of a folder, memory-mapped.

    When the folder is not there, one process builds it and the others wait for it.
    """
    if not folder.is_dir():
        with locked(folder.with_suffix(".lock"), f"{folder.parent.name}/{folder.name}"):
            if not folder.is_dir():
                _save_arrays(folder, build())
    files = sorted(folder.glob("*.npy"))
    return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in files}


def _save_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with written_whole(folder) as temporary:
        temporary.mkdir()
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
