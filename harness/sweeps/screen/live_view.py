"""The state of a sweep, as its own terminal and `harness watch` show it and the store keeps it."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Group
from rich.table import Table
from rich.text import Text

from harness.claims import claimed, owner_of
from harness.errors import visible
from harness.files import written_whole
from harness.inputs import read_note
from harness.owners import Owner
from harness.trials.record_faults import LARGEST_SCORE
from harness.trials.running import RunningTrial
from harness.trials.store import Store
from harness.trials.store_folders import CLAIM

STATE = "state.json"
"""The files in the folder of a sweep"""
_TOKEN = re.compile(r"[0-9a-f]{32}")
LEAST_SECONDS = 1.0
"""Time between two writes of a state, so that short trials do not wait for the disk"""


@dataclass(frozen=True)
class SweepState:
    """Progress of a sweep, without its running trials."""

    title: str = ""
    """The rounds that go on, in words"""
    to_run: int | None = 0
    """Trials that have ended, and those that are left of these rounds; None: not known"""
    slots: int = 0
    """Trials that run at a time"""
    done: int = 0
    """Trials that have ended, whatever came of them"""
    failed: int = 0
    pruned: int = 0
    best: float | None = None
    """The best dev score"""
    best_label: str = ""
    """The trial that has it"""
    trial_seconds: float = 0.0
    """The durations of the ended trials, added up"""

    def spent(self, running: Iterable[RunningTrial]) -> float:
        """Seconds that trials of this sweep have taken so far, added up."""
        return self.trial_seconds + sum(trial.seconds for trial in running)

    def left(self, running: Iterable[RunningTrial]) -> tuple[float, float] | None:
        """Estimates of what is left of these rounds: seconds, and seconds of trials added up.

        They follow from the mean over the trials so far, where the finished part of a running trial
        counts as that part of a trial. None: nothing is known yet.
        """
        trials = list(running)
        worked = self.done + sum(trial.share for trial in trials)
        if not worked or self.to_run is None:
            return None
        more = self.spent(trials) / worked * max(0.0, self.to_run - worked)
        return more / max(1, self.slots), more


Publish = Callable[[SweepState], None]


@contextmanager
def publishing(store: Store) -> Iterator[Publish]:
    """Yield what writes the state of this sweep into the store; it is removed afterwards.

    Nothing is written before the first state.
    """
    folder, written = store.sweeps_folder / Owner().token, 0.0
    with ExitStack() as stack:

        def publish(state: SweepState) -> None:
            nonlocal written
            if not written:
                for left in _sweeps(store):  # of killed sweeps
                    if owner_of(left / CLAIM) is None:
                        shutil.rmtree(left, ignore_errors=True)
                stack.callback(_remove, folder)
                stack.enter_context(claimed(folder / CLAIM, "this sweep"))
            just_now = time.monotonic() - written < LEAST_SECONDS
            if just_now and state.done not in (0, state.to_run):
                return
            written = time.monotonic()
            with suppress(OSError), written_whole(folder / STATE) as file:  # the disk is full
                file.write_text(json.dumps(asdict(state)), encoding="utf-8")

        yield publish


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # other sweeps run
        folder.parent.rmdir()


def running_sweeps(store: Store) -> list[SweepState]:
    """The states of the sweeps that processes of any machine run now on a store."""
    states = []
    for folder in _sweeps(store):
        with suppress(OSError, ValueError):  # it ended this moment, or is damaged
            state = TypeAdapter(SweepState).validate_json(read_note(folder / STATE))
            numbers = state.trial_seconds, state.best or 0.0
            sound = all(abs(value) < LARGEST_SCORE for value in numbers)
            if sound and owner_of(folder / CLAIM) is not None:
                title, best = visible(state.title), visible(state.best_label)
                states.append(replace(state, title=title, best_label=best))
    return states


def _sweeps(store: Store) -> list[Path]:
    """The folders of sweeps of a store; each has the name of a token."""
    return [path for path in sorted(store.sweeps_folder.glob("*")) if _TOKEN.fullmatch(path.name)]


BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 16
"""Characters of a dev curve; of a longer one, so many scores are shown"""


def live_view(sweeps: Iterable[SweepState], running: Sequence[RunningTrial]) -> Group:
    """The running trials, and under them a line or two for each sweep."""
    table = Table(box=None, pad_edge=False)
    table.add_column("running", overflow="fold")
    for heading in ("step", "loss", "dev"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("dev curve", no_wrap=True)
    table.add_column("sentences/s", justify="right", no_wrap=True)
    for trial in running:
        table.add_row(Text(trial.label), *_cells(trial))
    return Group(table, *(Text(line) for state in sweeps for line in _lines(state, running)))


def sparkline(values: Sequence[float]) -> str:
    """A curve as text, one bar for each value, from the lowest bar to the highest."""
    last = len(values) - 1
    if last >= CURVE_WIDTH:  # the first and the last value stay
        places = [round(place * last / (CURVE_WIDTH - 1)) for place in range(CURVE_WIDTH)]
        values = [values[place] for place in places]
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low == high:
        return BARS[len(BARS) // 2] * len(values)
    top = len(BARS) - 1
    return "".join(BARS[round(top * (value - low) / (high - low))] for value in values)


def time_left(state: SweepState, running: Iterable[RunningTrial]) -> str:
    """The time that is left of what is known of a sweep, as text."""
    left = state.left(running)
    return f"about {duration(left[0])} left" if left else "time left unknown"


def count_text(trials: int | None) -> str:
    """A number of trials as text; `?` where it is not known."""
    return "?" if trials is None else str(trials)


def duration(seconds: float) -> str:
    """Seconds as text: `2 h 5 min`, `3 min 20 s` or `12 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _lines(state: SweepState, running: Sequence[RunningTrial]) -> list[str]:
    """Lines: what a sweep has done and has to do, the best score, and the cost so far and left."""
    if not state.title and not state.to_run:
        return ["preparing"]
    counts = f"{state.done}/{count_text(state.to_run)} done, {state.failed} failed"
    counts += f", {state.pruned} pruned" if state.pruned else ""
    left = state.left(running)
    cost = f"cost: {duration(state.spent(running))} of trials so far"
    cost += f", about {duration(left[1])} more" if left else ""
    lines = [f"{state.title}: {counts}; {time_left(state, running)}", cost]
    if state.best is not None:
        lines.append(f"best dev so far: {state.best:.2f}, {state.best_label}")
    return lines


def _cells(trial: RunningTrial) -> list[str]:
    """Step, loss, dev, its curve and speed of a running trial; empty before its first report."""
    now = trial.progress
    if now is None:
        return [""] * 5
    return [
        f"{now.step}/{now.total_steps}",
        f"{now.loss:.3f}",
        f"{trial.curve[-1]:.2f}" if trial.curve else "",
        sparkline(trial.curve),
        f"{now.sentences_per_second:.0f}",
    ]
