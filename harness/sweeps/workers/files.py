"""The files that a trial names by paths, on their way to the machines of a cluster.

They are the plugin, and the corpora, suites, pretrained models and other files that a user gives as
paths. What is named otherwise, such as a model of the Hub, every machine finds itself. Where the
files have the same paths and contents, for example in a shared folder, nothing is copied. Otherwise
they come into the cache of the other machine, under the paths that they have here, so that a plugin
or a suite finds its files beside itself.
"""

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.data.corpora import PYTHON, file_of
from harness.data.corpora import source as source_of
from harness.data.hub import found_by_name, is_model_folder, model_files
from harness.data.revisions import parts_of
from harness.errors import UserError
from harness.evaluation.suites import has_files, suite, suite_file
from harness.files import cache_folder, content_digest, digest_of, discard, written_whole
from harness.inputs import regular_file, why
from harness.locks import lock_beside, locked
from harness.plugin import registry
from harness.relocation import Relocation, relocate
from harness.trials.trial import Trial

LARGEST_TRAVELLING = 2 * 2**30
"""Bytes of the files that come to a machine for one trial; more belongs into a shared folder"""
PIECE = 16 * 2**20
"""Bytes of a file that are on their way at a time"""
ReadPieces = Callable[[str], Iterator[bytes]]
"""Gives the content of a file of the other machine, piece by piece"""


@dataclass(frozen=True)
class ListedFile:
    """A file of the machine that began the sweep."""

    path: str
    """Absolute, without links"""
    size: int
    sha256: str

    def is_at(self, path: Path) -> bool:
        """Whether this machine has the same content at a path."""
        try:
            return path.stat().st_size == self.size and content_digest(path) == self.sha256
        except OSError:
            return False

    @property
    def is_here(self) -> bool:
        """Whether this machine has the same file under the same path."""
        return self.is_at(Path(self.path))

    @property
    def comes(self) -> bool:
        """Whether the file is copied; code is, because it may look for others beside itself."""
        return self.path.endswith(".py") or not self.is_here


@dataclass(frozen=True)
class FileList:
    """The files that a trial names by paths."""

    folder: str
    """The working directory of the sweep"""
    home: str
    files: list[ListedFile]
    links: dict[str, str]
    """Path by which a file or folder is named -> its path without links, where that is another"""


# On the machine that began the sweep


def file_list(trial: Trial) -> FileList:
    """The files that a trial names by paths, with their digests of this moment.

    Raises UserError when a file is missing.
    """
    files, links = dict[str, ListedFile](), dict[str, str]()
    for named, contents in _named(trial):
        path = os.path.normpath(Path.cwd() / named.expanduser())
        if path != str(named.resolve()):
            links[path] = str(named.resolve())
        for file in map(regular_file, contents):
            size = file.stat().st_size
            files[str(file)] = ListedFile(str(file), size, content_digest(file))
    return FileList(str(Path.cwd()), str(Path.home()), list(files.values()), links)


def _named(trial: Trial) -> Iterator[tuple[Path, list[Path]]]:
    """Every file or folder that a trial names by a path, and the files that it stands for."""
    declared, measured = trial.declared, trial.config.suite
    source = registry.locate(trial.method)
    yield source, _of_plugin(source)
    for name, _ in map(parts_of, declared.models):
        if is_model_folder(name):
            yield Path(name).expanduser(), model_files(name)
    paths = [file for name in declared.corpora.values() if (file := file_of(name))]
    # Besides itself, a Python file names data.
    code = [name for name in declared.corpora.values() if name.endswith(PYTHON)]
    others = [*declared.files, *(path for name in code for path in source_of(name).paths()[:-1])]
    if script := suite_file(measured):
        paths.append(script)
    if has_files(measured):
        others += suite(measured).files()
    for path in (*paths, *(file for file in others if not found_by_name(file))):
        yield path, [path.resolve()]


@cache
def _of_plugin(source: Path) -> list[Path]:
    """The files of a plugin, also data that it reads beside its code."""
    if source.is_file():
        return [source]
    inside = (path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file())
    return [
        source / path
        for path in inside
        if not any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    ]


# On the machine of a worker


def receive(listed: FileList, node: str) -> None:
    """Let this process open the files of a trial, which are brought here where they are not.

    `node`: Ray's name of the machine that began the sweep. Raises UserError when a file has changed
    there, or when too much would travel.
    """
    relocate(brought(listed, partial(_pieces_of, node)))


def brought(listed: FileList, pieces: ReadPieces) -> Relocation:
    """The location of the files of a list here; if need be, `pieces` brings them first.

    Raises UserError as `receive` does.
    """
    folder, home = Path(listed.folder), Path(listed.home)
    if all(file.is_here for file in listed.files):
        return Relocation(Path("/"), folder, home)
    root = _travelled() / digest_of(asdict(listed))
    relocation = Relocation(root, folder, home)

    def is_whole() -> bool:
        """Whether all files are there; a process reads each of them once."""
        return root.is_dir() and all(
            file.is_at(relocation.place(Path(file.path))) for file in listed.files
        )

    try:
        if not is_whole():
            with locked(lock_beside(root), "a copy of the files of the sweep"):
                if not is_whole():  # another process may have made it
                    _check_size(listed)
                    discard(root)  # it is damaged, if it is there
                    with written_whole(root) as made:
                        _lay_out(listed, replace(relocation, root=made), pieces)
        os.utime(root)  # so `harness clean` sees when it was last used
    except OSError as error:
        raise UserError(
            f"the files of the sweep cannot be copied to {root} on {platform.node()}: {why(error)}"
        ) from None
    return relocation


def _travelled() -> Path:
    return cache_folder().absolute() / "travelled"


def _check_size(listed: FileList) -> None:
    """Raises UserError when too much would travel."""
    missing = sorted((file for file in listed.files if file.comes), key=lambda file: file.size)
    total = sum(file.size for file in missing)
    if total > LARGEST_TRAVELLING:
        raise UserError(
            f"{total / 2**30:.1f} GiB of files would travel to {platform.node()}, the largest is "
            f"{missing[-1].path}, and at most {LARGEST_TRAVELLING / 2**30:g} GiB do: put such "
            f"files into a folder that all machines share under the same path, or models and data "
            f"sets into the HARNESS_HUB of every machine"
        )


def _lay_out(listed: FileList, made: Relocation, pieces: ReadPieces) -> None:
    """Put every file of the list where the relocation has it."""

    def there(path: str) -> Path:
        made.place(Path(path)).parent.mkdir(parents=True, exist_ok=True)
        return made.place(Path(path))

    for file in listed.files:
        if not file.comes:
            there(file.path).symlink_to(file.path)
            continue
        content = _content(file, pieces)
        try:
            there(file.path).hardlink_to(content)
        except OSError:  # a file system without hard links
            shutil.copyfile(content, there(file.path))
    for named, path in listed.links.items():
        # Relative, because the folder above is renamed when it is complete.
        link = there(named)
        link.symlink_to(os.path.relpath(made.place(Path(path)), link.parent))
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


# Between machines


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


def on_machine(node: str, function: Callable[..., Any], **options: Any) -> Any:
    """The function as a task of the machine that Ray calls `node`; it occupies no CPU and no GPU.

    It runs beside the trials that occupy the machine. `options`: further options of Ray.
    """
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(function).options(num_cpus=0, scheduling_strategy=there, **options)


def on_every_machine(function: Callable[..., Any], *arguments: Any) -> list[tuple[str, Any]]:
    """Call the function on every living machine: its name, and the reference to its answer.

    Two nodes of Ray on one machine have the same name.
    """
    return [
        (
            f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})",
            on_machine(node["NodeID"], function).remote(*arguments),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
