"""Opening the store that a user names, quickly."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.trials.store import Store


def opened(store: Path | str | None) -> "Store":
    """The store that `--store` names, or the default store; errors as `remote_store.opened`."""
    _leave_pandas_out()
    from harness.trials.remote_store import opened as opened_store

    return opened_store(None if store is None else str(store))


def _leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which takes a quarter of a second.

    It does so with its first array, to know pandas's objects where it is given some. Where pandas
    is imported by others afterwards, pyarrow finds it.
    """
    import pyarrow

    if "pandas" not in sys.modules:
        sys.modules["pandas"] = None  # type: ignore[assignment]  # its import fails
        pyarrow.array([])
        del sys.modules["pandas"]
