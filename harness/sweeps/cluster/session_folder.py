"""The folder of what a sweep keeps only while it runs: Ray's session and what Tune writes.

It is removed at the end of the sweep, and after a kill by the next sweep (or by `harness clean`).
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import SweepStopped
from harness.owners import left_behind, write_owner
from harness.trials.cleaning import Removable

PREFIX = "harness-ray-"
SHORT = Path("/tmp")
"""The place of the folder when the folder for temporary files has too long a name for Ray"""
_LONGEST = 24
"""Ray's sockets are some 70 bytes further down, and the path of a socket may have 107 bytes"""


@contextmanager
def session_folder() -> Iterator[Path]:
    """A new folder that only this user can read; folders of sweeps that were killed are removed.

    After SweepStopped it stays for the next sweep, because processes of Ray may still write there.
    """
    for folder in left_sessions().paths:
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_place()))  # with the mode 0700
    write_owner(folder)
    try:
        yield folder
    except SweepStopped:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def left_sessions() -> Removable:
    """The folders of sweeps that were killed."""
    found = sorted(_place().glob(f"{PREFIX}*"))
    return Removable(f"{PREFIX}*", "folders of Ray, of killed sweeps", found, left_behind)


def _place() -> Path:
    temporary = Path(tempfile.gettempdir())
    return SHORT if len(str(temporary)) > _LONGEST else temporary
