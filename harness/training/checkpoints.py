"""The checkpoint of a running trial: one file, from which the same command goes on."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.training.saved_state import SavedState

_logger = logging.getLogger(__name__)
MINUTES = 5.0
"""Time between two checkpoints, unless HARNESS_CHECKPOINT_MINUTES says otherwise"""
LARGEST_SHARE = 0.02
"""The most of the time that writing checkpoints may take"""


def checkpoint_minutes() -> float:
    """The minutes between two checkpoints. Raises UserError when the variable has no number."""
    given = os.environ.get("HARNESS_CHECKPOINT_MINUTES") or str(MINUTES)
    try:
        minutes = float(given)
    except ValueError:
        minutes = -1.0
    if not minutes >= 0:
        raise UserError(
            f'HARNESS_CHECKPOINT_MINUTES={given}: write a number of minutes, for example "5"'
        )
    return minutes


class Checkpoint:
    """Where a trial's checkpoint is, and when it is to be written."""

    def __init__(
        self, path: Path, identity: Mapping[str, Any], asked: Callable[[], bool] = lambda: False
    ) -> None:
        """`identity`: what a checkpoint must have been written with, so that it can be used.

        `asked`: whether the trial is asked to give way; it is called after every step. Raises
        UserError when HARNESS_CHECKPOINT_MINUTES is not a number.
        """
        self.path, self.identity, self.asked = path, dict(identity), asked
        self._interval = 60 * checkpoint_minutes()
        self._next = time.monotonic() + self._interval

    def due(self, *, ends: bool) -> bool:
        """Whether it is time for the next checkpoint. `ends`: whether the training ends now.

        The end of a long training is kept as well, because its test may take long.
        """
        return time.monotonic() >= self._next or (ends and self.path.exists())

    def read(self) -> SavedState | None:
        """The checkpoint, or None when there is none, or none that this trial can go on from."""
        if not self.path.exists():
            return None
        try:
            saved = SavedState.read(self.path)
        except UserError as error:
            _logger.warning("the trial begins at step 0: its checkpoint %s", error)
            return None
        theirs = saved.facts.get("identity", {})
        for name, value in self.identity.items():
            # Several processes name no threads, so one process can go on with theirs.
            if theirs.get(name, value) != value:
                _logger.warning(
                    "the trial begins at step 0: its checkpoint %s is of %s %s, and this is %s",
                    self.path, name, theirs.get(name), value,
                )  # fmt: skip
                return None
        return saved

    def write(self, saved: SavedState) -> None:
        """Replace the checkpoint. A file that cannot be written is logged; the training goes on."""
        started = time.monotonic()
        saved.facts["identity"] = self.identity
        try:
            saved.write(self.path)
        except OSError as error:
            _logger.warning("the checkpoint %s cannot be written: %s", self.path, error)
        ended = time.monotonic()
        # On a slow disk the checkpoints are further apart.
        self._next = ended + max(self._interval, (ended - started) / LARGEST_SHARE)
