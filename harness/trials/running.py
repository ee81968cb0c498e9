"""Running trials as others see them: each says in its folder how far it is."""

import functools
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from harness.claims import owner_of
from harness.errors import visible
from harness.files import written_whole
from harness.inputs import read_note
from harness.training.progress import Progress
from harness.trials.record_faults import LARGEST_SCORE
from harness.trials.store import Store
from harness.trials.store_folders import PROGRESS

_Report = Callable[[Progress], None]


@dataclass(frozen=True)
class RunningTrial:
    """The progress of a running trial."""

    label: str
    seconds: float = 0.0
    """Since it began, or went on from its checkpoint"""
    progress: Progress | None = None
    """Its last report; None before the first one"""
    curve: tuple[float, ...] = ()
    """Its dev scores so far"""

    @property
    def share(self) -> float:
        """The finished share of its steps, between 0 and 1."""
        return self.progress.step / self.progress.total_steps if self.progress else 0.0

    def after(self, progress: Progress, seconds: float) -> "RunningTrial":
        """The trial after a further report."""
        dev, curve = progress.dev, self.curve
        if dev is not None and math.isfinite(dev):
            curve = (*curve, dev)
        shown = replace(progress, points=[])  # they are many, and nobody reads them here
        return replace(self, progress=shown, seconds=seconds, curve=curve)


@contextmanager
def noted(label: str, report: _Report, folder: Path | None) -> Iterator[_Report]:
    """Yield what hears of the progress of a trial: it passes it on, and notes it in the folder.

    The note is removed afterwards. `folder`: that of the running trial; None: there is no note.
    """
    if folder is None:
        yield report
        return
    began, trial = time.monotonic(), RunningTrial(label)

    def heard(progress: Progress) -> None:
        nonlocal trial
        trial = trial.after(progress, time.monotonic() - began)
        _write(trial, folder)
        report(progress)

    _write(trial, folder)
    try:
        yield heard
    finally:
        (folder / PROGRESS).unlink(missing_ok=True)


def running_trials(store: Store) -> list[RunningTrial]:
    """The trials of a store that processes of any machine run now, by label."""
    trials = []
    for note in store.running_folder.glob(f"*/{PROGRESS}"):
        with suppress(OSError):  # it ended this moment
            trial = _read(read_note(note))
            if trial is not None and owner_of(store.claim(note.parent.name)) is not None:
                trials.append(trial)
    trials += filter(None, map(_read, store.progress_elsewhere()))
    return sorted(trials, key=lambda trial: trial.label)


def _write(trial: RunningTrial, folder: Path) -> None:
    with suppress(OSError), written_whole(folder / PROGRESS) as file:  # a full disk ends no trial
        file.write_text(json.dumps(asdict(trial)), encoding="utf-8")


def _read(note: str | bytes) -> RunningTrial | None:
    """The trial that a note describes; None when the note is damaged."""
    try:
        trial: RunningTrial = _notes().validate_json(note)
    except ValueError:
        return None
    if trial.progress and not 0 <= trial.progress.step <= trial.progress.total_steps > 0:
        return None
    if not all(abs(value) < LARGEST_SCORE for value in (trial.seconds, *trial.curve)):
        return None
    return replace(trial, label=visible(trial.label))


@functools.cache
def _notes() -> Any:
    return TypeAdapter(RunningTrial)
