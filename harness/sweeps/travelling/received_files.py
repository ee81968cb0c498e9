"""Brings the files of a trial from the machine that began the sweep to the one of a worker.

Where the files have the same paths and contents, for example in a shared folder, nothing is copied.
Otherwise they come into the cache, under the paths that they have on the other machine, so that a
plugin or a suite finds its files beside itself.
"""

import functools
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import ray

from harness.errors import UserError
from harness.files import cache_folder, digest, discard, written_whole
from harness.inputs import why
from harness.locks import lock_beside, locked
from harness.relocation import Relocation, relocate
from harness.sweeps.travelling.file_list import FileList, ListedFile
from harness.sweeps.travelling.on_machines import on_machine

LARGEST_TRAVELLING = 2 * 2**30
"""Bytes of the files that come to a machine for one trial; more belongs into a shared folder"""
PIECE = 16 * 2**20
"""Bytes of a file that are on their way at a time"""
ReadPieces = Callable[[str], Iterator[bytes]]
"""Gives the content of a file of the other machine, piece by piece"""


def receive(listed: str, node: str) -> None:
    """Let this process open the files of a trial, which are brought here where they are not.

    `listed`: path of the list on the machine that began the sweep. `node`: Ray's name of that
    machine. Raises UserError when a file has changed there, or when too much would travel.
    """
    relocate(brought(_read_list(listed, node), functools.partial(_pieces_of, node)))


@functools.cache
def _read_list(listed: str, node: str) -> FileList:
    return FileList.read(b"".join(_pieces_of(node, listed)))


def brought(found: FileList, pieces: ReadPieces) -> Relocation:
    """Where the files of a list lie here; they are brought here through `pieces` first if need be.

    Raises UserError as `receive` does.
    """
    folder, home = Path(found.folder), Path(found.home)
    if all(file.is_here for file in found.files):
        return Relocation(Path("/"), folder, home)
    root = _travelled() / digest(found.text())
    relocation = Relocation(root, folder, home)
    try:
        if not _is_whole(found, relocation):
            with locked(lock_beside(root), "a copy of the files of the sweep"):
                if not _is_whole(found, relocation):  # another process may have made it
                    _bring(found, relocation, pieces)
        os.utime(root)  # so `harness clean` sees when it was last used
    except OSError as error:
        raise UserError(
            f"the files of the sweep cannot be copied to {root} on {platform.node()}: {why(error)}"
        ) from None
    return relocation


def _is_whole(found: FileList, relocation: Relocation) -> bool:
    """Whether all files are where the relocation has them; a process reads each of them once."""
    return relocation.root.is_dir() and all(
        file.is_at(relocation.place(Path(file.path))) for file in found.files
    )


def _bring(found: FileList, relocation: Relocation, pieces: ReadPieces) -> None:
    """Copy the files to where the relocation has them, all of them or none."""
    _check_size(found)
    discard(relocation.root)  # it is damaged, if it is there
    with written_whole(relocation.root) as made:
        _lay_out(found, replace(relocation, root=made), pieces)


def _travelled() -> Path:
    return cache_folder().absolute() / "travelled"


def _comes(file: ListedFile) -> bool:
    """Whether a file is copied; code is, because it may look for other files beside itself."""
    return file.path.endswith(".py") or not file.is_here


def _check_size(found: FileList) -> None:
    """Raises UserError when too much would travel."""
    missing = sorted(filter(_comes, found.files), key=lambda file: file.size)
    total = sum(file.size for file in missing)
    if total > LARGEST_TRAVELLING:
        raise UserError(
            f"{total / 2**30:.1f} GiB of files would travel to {platform.node()}, the largest is "
            f"{missing[-1].path}, and at most {LARGEST_TRAVELLING / 2**30:g} GiB do: put such "
            f"files into a folder that all machines share under the same path, or models and data "
            f"sets into the HARNESS_HUB of every machine"
        )


def _lay_out(found: FileList, made: Relocation, pieces: ReadPieces) -> None:
    """Put every file of the list where the relocation has it."""
    for file in found.files:
        place = made.place(Path(file.path))
        place.parent.mkdir(parents=True, exist_ok=True)
        if _comes(file):
            _link_or_copy(_content(file, pieces), place)
        else:
            place.symlink_to(file.path)
    for named, path in found.links.items():
        place = made.place(Path(named))
        place.parent.mkdir(parents=True, exist_ok=True)
        # Relative, because the folder above is renamed when it is complete.
        place.symlink_to(os.path.relpath(made.place(Path(path)), place.parent))
    made.place(Path()).mkdir(parents=True, exist_ok=True)


def _content(file: ListedFile, pieces: ReadPieces) -> Path:
    """A copy of a file, which all lists share that have a file with this content."""
    kept = _travelled() / "contents" / file.sha256
    if file.is_at(kept):
        return kept
    with written_whole(kept) as temporary:
        with temporary.open("wb") as copy:
            copy.writelines(pieces(file.path))
        if not file.is_at(temporary):
            raise UserError(
                f"{file.path} has changed since the sweep began; give the same command again"
            )
    return kept


def _link_or_copy(kept: Path, place: Path) -> None:
    try:
        place.hardlink_to(kept)
    except OSError:  # a file system without hard links
        shutil.copyfile(kept, place)


def _pieces_of(node: str, path: str) -> Iterator[bytes]:
    """The content of a file of another machine, piece by piece."""
    read = on_machine(node, _read, _generator_backpressure_num_objects=4)
    try:
        for piece in read.remote(path):
            yield ray.get(piece)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(f"{path} cannot be read where the sweep began: {reason}") from None


def _read(path: str) -> Iterator[bytes]:
    """Read a file of this machine for another one."""
    with Path(path).open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
