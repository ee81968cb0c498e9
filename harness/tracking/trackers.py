"""The experiment trackers that `--track` names."""

from importlib.util import find_spec
from pathlib import Path

from harness.errors import UserError, suggest
from harness.tracking.tracker import Tracker

TRACKERS = ("tensorboard", "wandb", "mlflow", "trackio")
"""Each has the name of the module that it needs"""


def check(name: str) -> None:
    """Raises UserError for an unknown tracker, and for one whose library is not installed."""
    if name not in TRACKERS:
        raise UserError(f'--track {name}: there is no tracker "{name}"{suggest(name, TRACKERS)}')
    if find_spec(name) is None:
        raise UserError(
            f"--track {name} needs {name}, which is not installed: pip install "
            f"'harness-embeddings[tracking]'"
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
