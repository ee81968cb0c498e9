"""Trials as event files of TensorBoard: a folder for each, in a folder of its sweep."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from harness.tracking.tracker import About


class TensorBoard:
    """Writes `tensorboard/GROUP/TRIAL KEY` in the folder of the tracking."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tensorboard"

    def begin(self, about: About, identity: str | None) -> "_Run":
        within = f"{_folder_name(about.group)}/{_folder_name(about.label)} {about.key[:10]}"
        # The note with the identity may be a stranger's.
        if identity is not None and ".." not in Path(identity).parts:
            within = identity.lstrip("/")
        return _Run(self._folder, within, about)


def _folder_name(text: str) -> str:
    """A text as the name of a visible folder; of two texts that become one, keys differ."""
    name = re.sub(r"^\.|[^\w.=+() -]+", "_", text)
    return name.encode()[:150].decode(errors="ignore")


class _Run:
    """A trial as a folder; each attempt has an event file in it."""

    def __init__(self, folder: Path, identity: str, about: About) -> None:
        """`identity`: the trial's folder within `folder`."""
        self.identity, self._about = identity, about
        self._writer = SummaryWriter(folder / identity)
        shown = json.dumps(about.configuration, indent=1)
        self._writer.add_text("configuration", f"```json\n{shown}\n```", 0)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        self._writer.flush()

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        self._writer.add_text("status", status, step)
        # The page of hyperparameters takes them together with the scores, which become scalars.
        hyperparameters = dict(self._about.configuration)
        self._writer.add_hparams(hyperparameters, dict(scores), run_name=".", global_step=step)
        self._writer.close()

    def leave(self) -> None:
        self._writer.close()
