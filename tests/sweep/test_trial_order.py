"""A free worker takes a trial for which no other worker is starting."""

from types import SimpleNamespace

import pytest

from harness.sweeps.cluster.tune_run import NextInLine


@pytest.mark.parametrize(
    ("slots", "statuses", "chosen"),
    [
        (1, ["TERMINATED", "PENDING", "PENDING"], 1),
        (2, ["TERMINATED", "PENDING", "PENDING"], 2),  # a worker starts for the first of them
        (2, ["RUNNING", "TERMINATED", "PENDING", "PENDING"], 2),  # none is starting
        (4, ["RUNNING", "TERMINATED", "PENDING", "PENDING", "PENDING", "PENDING"], 4),
        (8, ["TERMINATED", "PENDING", "PENDING"], 2),  # the last, as long as no more are there
        (8, ["TERMINATED", "RUNNING"], None),
        (2, [], None),
    ],
)
def test_the_next_trial(slots: int, statuses: list[str], chosen: int | None) -> None:
    trials = [SimpleNamespace(status=status) for status in statuses]
    found = NextInLine(lambda: slots).choose_trial_to_run(
        SimpleNamespace(get_trials=lambda: trials)
    )
    assert found is (None if chosen is None else trials[chosen])
