"""Checks of what users name and type, before anything opens a file or computes with a number."""

import errno
import math
import numbers
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, get_args, get_origin

from harness.errors import UserError

BEYOND = 2**63
"""Whole numbers are below this and not below its negative, which is what a tensor can hold"""
LONGEST_NAME = 255
"""Bytes of a file's name; more is refused by every file system in use"""
DEEPEST_PATH = 500
"""Folders of a path; to make a path of some hundreds more, Python calls itself too often"""
LARGEST_NOTE = 2**20
"""Bytes of what one process leaves for another one in a store"""
_TYPES = {
    str: "a text",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    Mapping: "a dictionary",
    Sequence: "a list",
    Iterable: "a list",
}
_NUMBERS: Mapping[Any, Any] = {int: numbers.Integral, float: numbers.Real}
"""The types of numbers, which those of numpy have, too"""
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(path: Path) -> str:
    """Kind of a path: "a file", "a folder", "nothing", "a named pipe", "a link to nothing", ...

    Links are followed. Raises UserError when no file can have this path or when it may not be
    looked at.
    """
    if len(path.parts) > DEEPEST_PATH:
        raise UserError(f"{path} cannot be used: it has more than {DEEPEST_PATH} folders")
    try:
        return _KINDS[stat.S_IFMT(path.stat().st_mode)]
    except (FileNotFoundError, NotADirectoryError):
        # The system says "too long" only when all folders on the way are there.
        if any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
            raise UserError(f"{path}: the name is too long for a file") from None
        return "a link to nothing" if path.is_symlink() else "nothing"
    except (OSError, ValueError) as error:  # too long, a circle of links, forbidden, a zero byte
        raise UserError(f"{path} cannot be used: {why(error)}") from None


def is_file(path: Path) -> bool:
    """Whether there is a regular file at a path. Raises UserError as `kind_of` does."""
    return kind_of(path) == "a file"


def is_folder(path: Path) -> bool:
    """Whether there is a folder at a path. Raises UserError as `kind_of` does."""
    return kind_of(path) == "a folder"


def regular_file(path: Path, beginning: str = "") -> Path:
    """The path, if it names a regular file; to open a named pipe would wait without end.

    `beginning`: of the sentence, such as `corpus "a.txt": `. Raises UserError for anything else.
    """
    kind = kind_of(path)
    if kind == "nothing":
        raise UserError(f"{beginning}there is no such file: {path}")
    if kind != "a file":
        raise UserError(f"{beginning}{path} is {kind}, not a file")
    return path


def read_text(path: Path, beginning: str = "", *, at_most: int | None = None) -> str:
    """The text of a regular file in UTF-8.

    `beginning`: of the sentence. `at_most`: the largest size in bytes; None: any. Raises UserError
    for a file that is larger, that cannot be read, or that is not text.
    """
    try:
        size = regular_file(path, beginning).stat().st_size
        if at_most is not None and size > at_most:
            raise UserError(f"{beginning}{path} has {size} bytes; at most {at_most} are read")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{beginning}{path} cannot be read: it is not UTF-8 text ({error})"
        ) from None
    except OSError as error:
        raise UserError(f"{beginning}{path} cannot be read: {why(error)}") from None


def opened_itself(path: Path) -> BinaryIO:
    """A file of a store, open for reading, which a stranger may have left there.

    Raises OSError for a link, which leads to a file that the store does not have, and for what is
    no file, such as a pipe, which could take ever.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return os.fdopen(descriptor, "rb")


def read_note(path: Path) -> bytes:
    """The content of a small file that one process leaves for another one in a store.

    Raises OSError as `opened_itself` does, and for more than `LARGEST_NOTE` bytes.
    """
    with opened_itself(path) as file:
        if len(content := file.read(LARGEST_NOTE + 1)) > LARGEST_NOTE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def names_in(parts: Sequence[str], is_name: Callable[[str], bool]) -> list[str]:
    """The names in the parts of a text between its commas, each name once.

    A comma is a part of a name that is `is_name` to have it.
    """
    names, rest = list[str](), list(parts)
    while rest:
        lengths = range(len(rest), 1, -1)
        many = next((each for each in lengths if is_name(",".join(rest[:each]).strip())), 1)
        names.append(",".join(rest[:many]).strip())
        rest = rest[many:]
    return list(dict.fromkeys(names))


def why(error: Exception) -> str:
    """The reason that the system gives for an error, or else the error's own text."""
    return getattr(error, "strerror", None) or str(error)


def check_types(hints: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raises UserError for an argument in Python whose type is not that of its name.

    hints: name -> a type of those that have words here, or a union of such.
    """
    for name, value in values.items():
        kinds = get_args(hints[name]) if isinstance(hints[name], UnionType) else (hints[name],)
        types = tuple(_NUMBERS.get(kind, get_origin(kind) or kind) for kind in kinds)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in kinds):
            *first, last = (_TYPES[get_origin(kind) or kind] for kind in kinds)
            words = f"{', '.join(first)} or {last}" if first else last
            raise UserError(f"{name} = {value!r}: write {words}")


def checked_number(raw: Any, parsed: Any) -> Any:
    """`parsed`, which pydantic made of `raw`; lists are checked element by element.

    Raises ValueError where `true` has become a number, and for a whole number beyond 64 bits.
    """
    if isinstance(raw, bool) and not isinstance(parsed, bool):
        raise ValueError(f"a number is expected, not {str(raw).lower()}")
    if isinstance(parsed, int) and not -BEYOND <= parsed < BEYOND:
        raise ValueError("the whole number is beyond 64 bits")
    if isinstance(raw, list | tuple) and isinstance(parsed, list | tuple):
        for one, other in zip(raw, parsed, strict=False):
            checked_number(one, other)
    return parsed


def finite(value: float | None) -> float | None:
    """The number itself. Raises UserError for nan and inf."""
    if value is not None and not math.isfinite(value):
        raise UserError(f"a finite number is expected, not {value}")
    return value
