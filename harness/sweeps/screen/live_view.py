"""The live view of sweeps: a row for each running trial with its dev curve, and what is left.

A sweep's own terminal and `harness watch` show the same.
"""

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from harness.sweeps.screen.sweep_state import SweepState
from harness.trials.running import RunningTrial

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
    """What a sweep has done and has to do, the best score, and the cost so far and left."""
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
