"""Trials as runs of trackio, in its local database beside the store unless TRACKIO_DIR is set."""

import os
from collections.abc import Mapping
from pathlib import Path

from harness.tracking.tracker import PROJECT, About


class Trackio:
    """Writes `trackio/harness.db` in the folder of the tracking."""

    def __init__(self, folder: Path) -> None:
        # The library reads the variable when it is imported.
        os.environ.setdefault("TRACKIO_DIR", str(folder.resolve() / "trackio"))

    def begin(self, about: About, identity: str | None) -> "_Run":
        return _Run(about, identity or about.key)


class _Run:
    """A trial as a run, whose id is its key."""

    def __init__(self, about: About, identity: str) -> None:
        # `trackio.init` ends the run before it and prints, so the runs are made without it.
        from trackio import Run

        self.identity = identity
        self._run = Run(
            url=None,
            project=PROJECT,
            client=None,
            name=about.label,
            run_id=identity,
            group=about.group,
            config=dict(about.configuration),
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Nothing: a thread of the library writes twice a second."""

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        self._run.log({**scores, "status": status}, step=step)
        self._run.finish()

    def leave(self) -> None:
        self._run.finish()
