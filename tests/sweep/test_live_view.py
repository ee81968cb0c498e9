"""Views of a sweep's trials: the curve, the cost so far and left, and what others read."""

import io
import os
from contextlib import suppress

import pytest
from rich.console import Console

from harness.sweeps.screen import live_view
from harness.sweeps.screen.live_view import SweepState, sparkline
from harness.sweeps.screen.terminal import Terminal
from harness.training.interruption import outside
from harness.training.progress import Progress
from harness.trials.running import RunningTrial
from harness.trials.trial import Trial

TRIAL = Trial("simcse", {"encoder": "tiny-bert"}, 42, "search", "s", searched=("learning_rate",))
OTHER = Trial("simcse", {"encoder": "tiny-bert", "learning_rate": 0.1}, 42, "search", "s")


def progress(step: int, dev: float | None) -> dict[str, object]:
    return vars(Progress(step, 100, 0.5, dev, 321.0))


def test_sparkline() -> None:
    for values, bars in (
        ([], ""), ([30.0], "▅"), ([30.0, 30.0], "▅▅"), ([0.0, 7.0], "▁█"),
        ([0, 1, 2, 3, 4, 5, 6, 7], live_view.BARS), ([7, 0, 3], "█▁▄"),
    ):  # fmt: skip
        assert sparkline(values) == bars
    long = sparkline([5.0, *[1.0] * 200, 9.0])
    assert len(long) == live_view.CURVE_WIDTH
    assert (long[0], long[-1]) == ("▅", "█")


def test_what_is_left_follows_from_the_mean_of_what_is_done() -> None:
    """Two trials of 100 s and half of a third in 50 s: each of the other 1.5 takes 100 s."""
    state = SweepState(to_run=4, slots=2, done=2, trial_seconds=200.0)
    running = [RunningTrial("third", 50.0, Progress(50, 100, 0.1, None, 1.0))]
    assert state.left(running) == (75.0, 150.0)
    assert state.spent(running) == 250.0
    for seconds, text in {3.4: "3 s", 200: "3 min 20 s", 7500: "2 h 5 min"}.items():
        assert live_view.duration(seconds) == text
    assert SweepState(to_run=4).left([RunningTrial("began now")]) is None


@pytest.mark.parametrize(
    ("reader", "why"), [("full", "No space left on device"), ("terminal", "Input/output error")]
)
def test_a_screen_that_takes_no_more_asks_trainings_to_give_way(
    reader: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its error would end the sweep before they have written their checkpoints."""
    if reader == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:  # one that has gone
        master, descriptor = os.openpty()
        os.close(master)
    try:
        # Its last words are lost.
        with suppress(OSError), os.fdopen(descriptor, "w") as out:
            terminal = Terminal(Console(file=out), lambda _: None)
            terminal.notice("a sentence")
            assert outside.is_set()
            terminal.notice("a further one")
    finally:
        outside.clear()
    assert capsys.readouterr().err == f"Error: the output cannot be written ({why})\n"


def test_the_terminal_names_values_and_counts_every_end() -> None:
    out, states = io.StringIO(), []
    terminal = Terminal(Console(file=out, width=200), states.append)
    terminal.round("search, round 1", 3, 0, 2)
    terminal.underway(["search, round 1"], 3)
    terminal.started(TRIAL)
    terminal.started(OTHER)
    terminal.progressed(TRIAL, progress(10, 30.0))
    terminal.progressed(TRIAL, progress(20, 31.0))
    terminal.progressed(TRIAL, progress(25, None))
    view = Console(file=io.StringIO(), width=120, record=True)
    view.print(terminal.live.get_renderable())
    shown = view.export_text()
    label = "simcse unsup tiny-bert learning_rate=3e-05 seed 42"
    for part in (label, "25/100", "31.00", "▁█", "0/3 done, 0 failed"):
        assert part in shown
    terminal.ended(TRIAL, {"status": "finished", "reason": None, "dev": 31.0})
    terminal.ended(OTHER, {"status": "pruned", "reason": "low", "dev": 12.0})
    terminal.started(TRIAL)
    terminal.ended(TRIAL, {"status": "failed", "reason": "odd", "dev": None})
    assert (states[-1].done, states[-1].failed, states[-1].pruned) == (3, 1, 1)
    assert (states[-1].best, states[-1].best_label) == (31.0, TRIAL.label)
    assert "learning_rate=3e-05 seed 42: dev 31.00 (best 31.00)" in out.getvalue()
    assert "FAILED: odd" in out.getvalue()
    terminal.preparing("the first stage")
    terminal.prepared("the first stage", None, 2)
    *_, begun, made = out.getvalue().splitlines()
    assert begun == "  the first stage: begun"
    assert made.startswith("  the first stage: made in ")
    terminal.round("final seeds", 2, 0, 2)
    terminal.underway(["a", "b", "c", "final seeds", "d"], 2)
    assert (states[-1].done, states[-1].to_run, states[-1].failed) == (3, 5, 1)
    assert states[-1].title == "a; b; c; 2 more"
    terminal.underway([], None)
    assert states[-1].to_run is None
