"""Opening the store that a user names, quickly."""

import functools
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.trials.store import Store


def opened(store: Path | str | None) -> "Store":
    """The store that `--store` names, or the default store; errors as `remote_store.opened`."""
    _leave_pandas_out()
    from harness.trials.remote_store import opened as opened_store

    return opened_store(None if store is None else str(store))


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
