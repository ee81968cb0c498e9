"""Trials as runs of Weights & Biases, offline unless WANDB_MODE says otherwise."""

import os
from collections.abc import Mapping
from pathlib import Path

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # the library reads it when imported

import wandb

from harness.tracking.tracker import PROJECT, About


class WeightsAndBiases:
    """Writes `wandb/offline-run-...` in the folder of the tracking."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, about: About, identity: str | None) -> "_Run":
        # A login of some earlier day is no wish to send this trial away; WANDB_MODE is one.
        wished = os.environ.get("WANDB_MODE")
        self._folder.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=identity or about.key,
            name=about.label,
            group=about.group,
            job_type=about.role,
            config=dict(about.configuration),
            dir=self._folder,
            mode=None if wished else "offline",
            resume="allow" if wished else None,
            reinit="create_new",
            # The process that writes is that of the sweep: its figures and its output say nothing.
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, save_code=False,
                x_disable_stats=True, x_disable_meta=True,
            ),
        )  # fmt: skip
        return _Run(run)


def _free(name: str) -> str:
    """The name of a metric; the library keeps names with an underscore in front for itself."""
    return f"metric.{name}" if name.startswith("_") else name


class _Run:
    """A trial as a run, whose id is its key."""

    def __init__(self, run: wandb.Run) -> None:
        self._run, self.identity = run, str(run.id)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({_free(name): value for name, value in values.items()}, step=step)

    def flush(self) -> None:
        """Nothing: the process of the library writes at once."""

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        self._run.summary.update({**scores, "status": status})
        self._run.finish(exit_code=int(status == "failed"))

    def leave(self) -> None:
        self._run.finish(exit_code=1)
