"""Trials as runs of MLflow, in a database beside the store unless MLFLOW_TRACKING_URI is set."""

import logging
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # the library reads it when imported

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from harness.files import digest
from harness.locks import locked
from harness.tracking.tracker import About

STATES = {"finished": "FINISHED", "pruned": "KILLED", "failed": "FAILED"}
"""The status of a record -> that of a run"""
_LONGEST = 250
"""Characters of a name that MLflow takes"""
_REFUSED = re.compile(r"[^\w :./-]|[^\x00-\x7f]|_(?=x[0-9a-f]+_)|(?:^|(?<=/))[./]|[./]$")
"""Characters that MLflow refuses in a name, or reads as a path, and an underscore that would be
taken for the beginning of such a character"""


def valid_name(name: str) -> str:
    """The name of a metric as MLflow takes it: what it refuses is `_x`, its code point and `_`.

    So `test.a[b]` becomes `test.a_x5b_b_x5d_`. No two names become the same; one that is too long
    ends with its digest.
    """
    valid = _REFUSED.sub(lambda found: f"_x{ord(found[0]):x}_", name)
    return valid if len(valid) <= _LONGEST else f"{valid[: _LONGEST - 17]}-{digest(name)}"


def _quoted(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):X}"


class Mlflow:
    """Writes `mlflow.db` in the folder of the tracking; a sweep is an experiment."""

    def __init__(self, folder: Path) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        folder.mkdir(parents=True, exist_ok=True)
        # SQLAlchemy reads the path as a part of a URL.
        database = re.sub("[%?#]", _quoted, str(folder.resolve() / "mlflow.db"))
        self._artifacts = (folder.resolve() / "mlflow-artifacts").as_uri()
        self._own = "MLFLOW_TRACKING_URI" not in os.environ
        self._lock = folder / "mlflow.lock"
        # Two processes must not make the tables of one database at the same time.
        with locked(self._lock, "the database of MLflow"):
            self._client = MlflowClient(f"sqlite:///{database}" if self._own else None)
            self._client.search_experiments(max_results=1)
            if self._own and Path(database) != folder.resolve() / "mlflow.db":
                with suppress(OSError):  # MLflow makes empty folders of the quoted name
                    os.removedirs(Path(database).parent)

    def begin(self, about: About, identity: str | None) -> "_Run":
        if identity is None:
            run = self._client.create_run(
                self._experiment(about.group),
                run_name=about.label,
                tags={"key": about.key, "role": about.role},
            )
            params = [
                Param(valid_name(name), str(value)) for name, value in about.configuration.items()
            ]
            self._client.log_batch(run.info.run_id, params=params)
            return _Run(self._client, run.info.run_id)
        self._client.update_run(identity, status="RUNNING")
        return _Run(self._client, identity)

    def _experiment(self, name: str) -> str:
        """The id of the experiment of this name, which is made when there is none."""
        with locked(self._lock, "the experiments of MLflow"):
            found = self._client.get_experiment_by_name(name)
            if found is not None:
                return str(found.experiment_id)
            artifacts = self._artifacts if self._own else None
            return str(self._client.create_experiment(name, artifact_location=artifacts))


class _Run:
    """A trial as a run."""

    def __init__(self, client: MlflowClient, identity: str) -> None:
        self._client, self.identity = client, identity
        self._waiting: list[Metric] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._waiting += [
            Metric(valid_name(name), value, now, step) for name, value in values.items()
        ]

    def flush(self) -> None:
        most = 1000  # what a server takes at once
        while self._waiting:
            batch, self._waiting = self._waiting[:most], self._waiting[most:]
            self._client.log_batch(self.identity, metrics=batch)

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        self.log(step, scores)
        self.flush()
        self._client.set_terminated(self.identity, STATES[status])

    def leave(self) -> None:
        self._client.set_terminated(self.identity, "KILLED")
