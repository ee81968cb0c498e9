"""The experiment trackers that `--track` names, and what they are passed of a trial.

The library of a tracker is imported when the tracker is made."""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.errors import UserError, check_extra, suggest
from harness.files import digest
from harness.locks import locked

if TYPE_CHECKING:
    from mlflow import MlflowClient

Scalar = bool | int | float | str
PROJECT = "harness"
"""The project of the runs, in trackers that have projects"""


@dataclass(frozen=True)
class About:
    """Facts that a tracker receives of a trial before it runs."""

    key: str
    label: str
    """The trial as people read it, as in the terminal and in Ray's dashboard"""
    group: str
    """The name of the sweep"""
    role: str
    configuration: Mapping[str, Scalar]
    """Hyperparameter -> value, with method, seed and key"""


class TrackedRun(Protocol):
    """A trial in a tracker. Its methods raise whatever the tracker's library raises."""

    identity: str
    """Identity by which the tracker finds the run again"""

    def log(self, steps: Mapping[int, Mapping[str, float]]) -> None:
        """Write values of metrics at steps of the trial, which never go back.

        Some libraries write them by a process or a thread of their own, a moment later.
        """

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        """Keep what the record has at the end, and close the run.

        `status`: that of the record, such as `finished`.
        """

    def leave(self) -> None:
        """Close the run of a trial that goes on later."""


Begin = Callable[[About, str | None], TrackedRun]
"""Begins the run of a trial, or goes on with the one of this identity.

A tracker is such a function. It takes any number of runs at a time, all from one thread.
"""


def _folder_name(text: str) -> str:
    """A text as the name of a visible folder; of two texts that become one, keys differ."""
    name = re.sub(r"^\.|[^\w.=+() -]+", "_", text)
    return name.encode()[:150].decode(errors="ignore")


class _EventFiles:
    """A trial as the folder `tensorboard/GROUP/TRIAL KEY`; each attempt has an event file in it.

    Its identity is this folder within `folder`.
    """

    def __init__(self, folder: Path, about: About, identity: str | None) -> None:
        self.identity = f"{_folder_name(about.group)}/{_folder_name(about.label)} {about.key[:10]}"
        # The note with the identity may be a stranger's.
        if identity is not None and ".." not in Path(identity).parts:
            self.identity = identity.lstrip("/")
        self._about = about
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(folder / self.identity)
        shown = json.dumps(about.configuration, indent=1)
        self._writer.add_text("configuration", f"```json\n{shown}\n```", 0)

    def log(self, steps: Mapping[int, Mapping[str, float]]) -> None:
        for step, values in steps.items():
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        self._writer.add_text("status", status, step)
        # The page of hyperparameters takes them together with the scores, which become scalars.
        hyperparameters = dict(self._about.configuration)
        self._writer.add_hparams(hyperparameters, dict(scores), run_name=".", global_step=step)
        self._writer.close()

    def leave(self) -> None:
        self._writer.close()


def _free(name: str) -> str:
    """The name of a metric; the library keeps names with an underscore in front for itself."""
    return f"metric.{name}" if name.startswith("_") else name


class _WandbRun:
    """A trial as a run in `wandb/offline-run-...` of the tracking's folder; its id is its key."""

    def __init__(self, folder: Path, about: About, identity: str | None) -> None:
        # The library reads the variable when it is imported.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        # A login of some earlier day is no wish to send this trial away; WANDB_MODE is one.
        wished = os.environ.get("WANDB_MODE")
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=identity or about.key,
            name=about.label,
            group=about.group,
            job_type=about.role,
            config=dict(about.configuration),
            dir=folder,
            mode=None if wished else "offline",
            resume="allow" if wished else None,
            reinit="create_new",
            # The process that writes is that of the sweep: its figures and its output say nothing.
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, save_code=False,
                x_disable_stats=True, x_disable_meta=True,
            ),
        )  # fmt: skip
        self.identity = str(self._run.id)

    def log(self, steps: Mapping[int, Mapping[str, float]]) -> None:
        for step, values in steps.items():
            self._run.log({_free(name): value for name, value in values.items()}, step=step)

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        self._run.summary.update({**scores, "status": status})
        self._run.finish(exit_code=int(status == "failed"))

    def leave(self) -> None:
        self._run.finish(exit_code=1)


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


class Mlflow:
    """Writes `mlflow.db` in the folder of the tracking; a sweep is an experiment."""

    def __init__(self, folder: Path) -> None:
        # The library reads the variable when it is imported.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        folder.mkdir(parents=True, exist_ok=True)
        # SQLAlchemy reads the path as a part of a URL.
        plain = str(folder.resolve() / "mlflow.db")
        database = re.sub("[%?#]", lambda sign: f"%{ord(sign[0]):X}", plain)
        self._artifacts = (folder.resolve() / "mlflow-artifacts").as_uri()
        self._own = "MLFLOW_TRACKING_URI" not in os.environ
        self._lock = folder / "mlflow.lock"
        # Two processes must not make the tables of one database at the same time.
        with locked(self._lock, "the database of MLflow"):
            self._client = MlflowClient(f"sqlite:///{database}" if self._own else None)
            self._client.search_experiments(max_results=1)
            if self._own and database != plain:
                with suppress(OSError):  # MLflow makes empty folders of the quoted name
                    os.removedirs(Path(database).parent)

    def __call__(self, about: About, identity: str | None) -> "_MlflowRun":
        if identity is None:
            from mlflow.entities import Param

            run = self._client.create_run(
                self._experiment(about.group),
                run_name=about.label,
                tags={"key": about.key, "role": about.role},
            )
            params = [
                Param(valid_name(name), str(value)) for name, value in about.configuration.items()
            ]
            self._client.log_batch(run.info.run_id, params=params)
            return _MlflowRun(self._client, run.info.run_id)
        self._client.update_run(identity, status="RUNNING")
        return _MlflowRun(self._client, identity)

    def _experiment(self, name: str) -> str:
        """The id of the experiment of this name, which is made when there is none."""
        with locked(self._lock, "the experiments of MLflow"):
            found = self._client.get_experiment_by_name(name)
            if found is not None:
                return str(found.experiment_id)
            artifacts = self._artifacts if self._own else None
            return str(self._client.create_experiment(name, artifact_location=artifacts))


class _MlflowRun:
    """A trial as a run."""

    def __init__(self, client: "MlflowClient", identity: str) -> None:
        self._client, self.identity = client, identity

    def log(self, steps: Mapping[int, Mapping[str, float]]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [
            Metric(valid_name(name), value, now, step)
            for step, values in steps.items()
            for name, value in values.items()
        ]
        for first in range(0, len(metrics), 1000):  # what a server takes at once
            self._client.log_batch(self.identity, metrics=metrics[first : first + 1000])

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        self.log({step: scores})
        self._client.set_terminated(self.identity, STATES[status])

    def leave(self) -> None:
        self._client.set_terminated(self.identity, "KILLED")


TRACKERS: dict[str, Callable[[Path], Begin]] = {
    "tensorboard": lambda folder: partial(_EventFiles, folder / "tensorboard"),
    "wandb": lambda folder: partial(_WandbRun, folder),
    "mlflow": Mlflow,
}
"""Name of a tracker, which is that of the module that it needs -> what makes it in a folder"""


def check(name: str) -> None:
    """Raises UserError for an unknown tracker, and for one whose library is not installed."""
    if name not in TRACKERS:
        raise UserError(f'--track {name}: there is no tracker "{name}"{suggest(name, TRACKERS)}')
    check_extra("tracking", name, f"--track {name}")
