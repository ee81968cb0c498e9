"""Python files of users as modules: methods, suites and corpora. All of them are loaded here.

Code runs when its user names it. Inside of `names_of_records`, where names come from the records of
a store, only code runs that this user has run before: the digest of its content is in a file of the
cache. The content that was digested is what runs. A file is read once, and neither compiled files
nor anything else beside it is imported.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import UserError, explained
from harness.files import cache_folder, digest
from harness.inputs import regular_file

KNOWN_CODE = "known-code"
"""The file of the cache with the digests of the code that this user has run, one a line"""
_INIT = "__init__.py"
_NAMING = {
    "plugin": "`harness show {0}` shows its method",
    "corpus": "`harness show {0}` shows it",
    "suite": "`harness eval MODEL --suite {0}` measures a model with it",
}
"""Kind of code -> a command with which its user names it"""
_of_records = False
_unwritten: set[str] = set()
"""Digests that the cache could not take"""


class CodeNotRun(UserError):
    """A record names code that this user has not run before, so it was not run."""


@dataclass(frozen=True)
class UserCode:
    """The content of a Python file, or of all Python files of a folder, as it was read."""

    path: Path
    files: tuple[tuple[str, bytes], ...]
    """(path inside of the folder, content) of each; of a single file, its name and its content"""

    @property
    def content(self) -> bytes:
        """All of it. Names are a part: two files that swap their contents are other code."""
        return b"".join(name.encode() + b"\0" + text + b"\0" for name, text in self.files)

    @property
    def text_digest(self) -> str:
        """The digest of the contents without the names, which keys of suites have."""
        return digest(b"".join(text for _, text in self.files))

    @cached_property
    def sha256(self) -> str:
        """The digest by which known code is known."""
        return digest(self.content, 64)

    @property
    def is_known(self) -> bool:
        """Whether this user has run it before."""
        return self.sha256 in _unwritten or self.sha256 in _known()

    def module(self, kind: str, *, trusted: bool = False) -> ModuleType:
        """Import it as a module of its own; siblings in a folder can be imported relatively.

        kind: `plugin`, `suite` or `corpus`. `trusted`: whether it was installed, as harness was.
        Raises UserError when the import fails, and CodeNotRun.
        """
        if _of_records and not trusted and not self.is_known:
            raise CodeNotRun(
                f"a record of the store names the {kind} {self.path}, whose Python code you have "
                f"not run before, so it was not run; to allow it, read it and name it yourself: "
                f"{_NAMING[kind].format(self.path)}"
            )
        if not trusted:
            _remember(self.sha256)
        # Two files elsewhere can have the same name, and one that has changed is another module.
        own = digest(f"{self.path} {self.sha256}", 8)
        # In the name of a module, a dot would stand before a part of a package.
        name = f"harness_{kind}_{re.sub('[^A-Za-z0-9]', '_', self.path.stem)}_{own}"
        _loaded.setdefault(name, self)
        return imported(name, f"the {kind} {self.path}")


def user_code(path: Path, beginning: str) -> UserCode:
    """The content of a Python file, or of a folder of them.

    beginning: that of the sentence about one that is no file, for which UserError is raised.
    """
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    base = path if path.is_dir() else path.parent
    names = [file.relative_to(base).as_posix() for file in files]
    content = [regular_file(file, beginning).read_bytes() for file in files]
    return UserCode(path, tuple(zip(names, content, strict=True)))


def listed_paths(files: Callable[[], Any], code: Path) -> list[Path]:
    """Paths from `files()` of a user's Python file. Raises UserError unless it gives paths."""
    with explained(f"{code}: files() raises "):
        paths = files()
    if not (isinstance(paths, list) and all(isinstance(each, Path) for each in paths)):
        raise UserError(f"{code}: files() must give a list of paths, not {paths!r}")
    return paths


def imported(name: str, title: str) -> ModuleType:
    """Import a module inside of one that `UserCode.module` gave. Raises UserError when it fails."""
    with explained(f"{title} fails to import: "):
        return importlib.import_module(name)


@contextmanager
def names_of_records() -> Iterator[None]:
    """In the block, whatever names code comes from a record: only known code runs."""
    global _of_records
    before, _of_records = _of_records, True
    try:
        yield
    finally:
        _of_records = before


def named_by_records() -> bool:
    """Whether the names of code come from records now."""
    return _of_records


def _known() -> set[str]:
    """The digests of the code that this user has run.

    A file that somebody else owns, or could have written, does not count.
    """
    try:
        descriptor = os.open(cache_folder() / KNOWN_CODE, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
            stat = os.fstat(descriptor)
            ours = stat.st_uid == os.getuid() and not stat.st_mode & 0o022
            return set(file.read().split()) if ours else set()
    except OSError:
        return set()


def _remember(sha256: str) -> None:
    if sha256 in _known():
        return
    path = cache_folder() / KNOWN_CODE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{sha256}\n")
    except OSError:  # this process knows it at least
        _unwritten.add(sha256)


_loaded: dict[str, UserCode] = {}
"""Name of a module -> its code"""


def _specification(name: str) -> importlib.machinery.ModuleSpec | None:
    """Import rule of a module of `_loaded`, or of one inside of it; None: there is no such file."""
    package, _, inside = name.partition(".")
    code, inside_path = _loaded[package], inside.replace(".", "/")
    files = dict(code.files)
    if not inside and _INIT not in files:
        return spec_from_loader(name, _InMemory(code.path, files[code.path.name]))
    for file in (f"{inside_path}/{_INIT}".lstrip("/"), f"{inside_path}.py"):
        if file in files:
            return spec_from_loader(name, _InMemory(code.path / file, files[file]))
    if any(file.startswith(f"{inside_path}/") for file in files):  # a folder without __init__.py
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(code.path / inside_path)]
        return spec
    return None


class _InMemory(importlib.abc.ExecutionLoader):
    """Runs content that was read before, under the name of its file."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content = path, content

    def is_package(self, fullname: str) -> bool:
        return self._path.name == _INIT

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._content)


class _Siblings(importlib.abc.MetaPathFinder):
    """Finds the modules inside of a plugin's folder in what was read of it, and nowhere else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in _loaded:
            return None
        specification = _specification(fullname)
        if specification is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return specification


sys.meta_path.insert(0, _Siblings())
