"""Opening the store that a user names, quickly."""

import functools
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.inputs import kind_of

if TYPE_CHECKING:
    from harness.trials.store import Store


def opened(store: Path | str | None) -> "Store":
    """The store that `--store` names, or the default store.

    Raises UserError for what is there and is no folder, and for a bucket that cannot be read.
    """
    _leave_pandas_out()
    from harness.trials.remote_store import RemoteStore, store_at
    from harness.trials.store_folders import DEFAULT_STORE

    there = store_at(store or DEFAULT_STORE)
    if isinstance(there, RemoteStore):
        _reach(there.place)
    elif (kind := kind_of(there.folder)) not in ("a folder", "nothing"):
        raise UserError(
            f"the store {there.place} is {kind}, not a folder; choose another folder with --store"
        )
    return there


@functools.cache
def _reach(place: str) -> None:
    """Check once that a bucket can be read, so that a sweep ends with its table even without it."""
    from harness.remote import RemoteFolder

    RemoteFolder(place).check()


class _NoPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


@functools.cache
def _leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which takes a quarter of a second.

    It does so with its first array, to know pandas's objects where it is given some. Where pandas
    is imported by others afterwards, pyarrow finds it.
    """
    import pyarrow

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([])
    finally:
        sys.meta_path.remove(finder)
