"""Processes, so that others on the same machine can tell whether one of them has ended."""

import json
import os
import platform
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Self

from harness.errors import visible

OWNER = "owner.json"
"""The file of a folder that names the process to which the folder belongs"""


@cache
def _place() -> str:
    parts = [platform.node()]
    with suppress(OSError):  # there is no /proc outside of Linux
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "\n".join(parts)


def _began(process: int) -> str:
    """The start of a process; "" when there is no such process, or only its remains."""
    try:
        # proc(5): behind the name in brackets come the state (field 3; Z and X are remains) and the
        # start in ticks since the machine's (field 22).
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
    except OSError:
        return ""  # it ended while it was read
    try:  # a system without /proc
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"


@dataclass(frozen=True)
class Owner:
    """A process that something belongs to; by default it is this one."""

    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """A random name of the thing that it owns"""
    host: str = field(default_factory=platform.node)
    process: int = field(default_factory=os.getpid)
    began: str = field(default_factory=lambda: _began(os.getpid()))
    """Start of the process, as its machine counts; it tells processes of one number apart"""
    place: str = field(default_factory=_place)
    """The domain of process numbers: the machine since its start, and the container"""

    @classmethod
    def of(cls, note: Any) -> Self:
        """The owner that a note names. Raises ValueError when it names none."""
        kinds = {each.name: int if each.name == "process" else str for each in fields(cls)}
        if not isinstance(note, dict) or {name: type(note[name]) for name in note} != kinds:
            raise ValueError("it names no process")
        return cls(**note)

    def __str__(self) -> str:
        return visible(f"process {self.process} on {self.host}")

    @property
    def has_ended(self) -> bool:
        """Whether the process has surely ended; of another machine's process nobody here knows."""
        return self.place == _place() and _began(self.process) != self.began


def write_owner(folder: Path) -> None:
    """Write into a folder that it belongs to this process."""
    (folder / OWNER).write_text(json.dumps(asdict(Owner())), encoding="utf-8")


def left_behind(folder: Path) -> bool:
    """Whether a folder says to which process it belongs, and that process has surely ended."""
    try:
        return Owner.of(json.loads((folder / OWNER).read_bytes())).has_ended
    except (OSError, ValueError):
        return False
