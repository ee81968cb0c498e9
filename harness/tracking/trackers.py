"""The experiment trackers that `--track` names."""

from importlib.util import find_spec
from pathlib import Path

from harness.errors import UserError, suggest
from harness.tracking.tracker import Tracker

EXTRAS = {
    "tensorboard": ("tensorboard", "tracking"),
    "wandb": ("wandb", "tracking"),
    "mlflow": ("mlflow", "tracking"),
    "trackio": ("trackio", "trackio"),
}
"""Tracker -> the module that it needs, and the extra that installs it"""


def check(name: str) -> None:
    """Raises UserError for an unknown tracker, and for one whose library is not installed."""
    if name not in EXTRAS:
        raise UserError(f'--track {name}: there is no tracker "{name}"{suggest(name, EXTRAS)}')
    module, extra = EXTRAS[name]
    if find_spec(module) is None:
        raise UserError(
            f"--track {name} needs {module}, which is not installed: pip install "
            f"'harness-embeddings[{extra}]'"
        )


def tracker(name: str, folder: Path) -> Tracker:
    """The tracker of this name, which keeps its files in a folder. It imports its library."""
    if name == "tensorboard":
        from harness.tracking.tensorboard_files import TensorBoard

        return TensorBoard(folder)
    if name == "wandb":
        from harness.tracking.wandb_runs import WeightsAndBiases

        return WeightsAndBiases(folder)
    if name == "mlflow":
        from harness.tracking.mlflow_runs import Mlflow

        return Mlflow(folder)
    from harness.tracking.trackio_runs import Trackio

    return Trackio(folder)
