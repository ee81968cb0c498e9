"""Pruners decide as they would by hand, and what they end is in the store as pruned."""

import random
import zlib
from dataclasses import replace

import pytest

from harness.sweeps.configurations import Configurations
from harness.sweeps.scored import sampled_of, scored_of, tried_of
from harness.sweeps.study import Study
from harness.trials.trial import Trial, key
from tests.sweep.conftest import Killed, Playing

RATES = [1e-5, 2e-5, 3e-5, 4e-5, 5e-5, 6e-5]
GRID = f"    grid: {{learning_rate: {RATES}}}\n"
CURVES = {
    1e-5: [10, 20, 30, 40],
    2e-5: [12, 22, 32, 42],
    3e-5: [14, 24, 34, 44],
    4e-5: [11, 30, 50, 60],
    5e-5: [13, 19, 25, 31],
    6e-5: [15, 21, 60, 70],
}
"""Learning rate -> the best dev score so far after each evaluation"""


def curve(trial: Trial) -> list[float]:
    return [float(value) for value in CURVES[trial.configuration["learning_rate"]]]


# By hand, in the order of the grid. ASHA with a factor of 2 has rungs at evaluations 1, 2 and 4; on
# each, a configuration must be among the best half of those so far, itself included (of one or
# two or three that is the best). 1e-5: alone, goes on. 2e-5 and 3e-5: the best so far, go on.
# 4e-5: 11 is third of 4 and two go on, so it ends. 5e-5: 13 is second of 5 and goes on; on the
# second rung 19 is the last of 20, 22, 24, 19, so it ends. 6e-5: 15 is the best; on the second rung
# 21 is third of 5 and two go on, so it ends.
ASHA = {4e-5: 1, 5e-5: 2, 6e-5: 2}
# The median looks at the configurations that have finished, from the third on. 3e-5: above both.
# 4e-5: 11 is below the median of 10, 12, 14. 5e-5: 13 is above it; 19 is below that of 20, 22, 24.
# 6e-5: 15 is above it, and 21 is below.
MEDIAN = {4e-5: 1, 5e-5: 2, 6e-5: 2}
# From the second evaluation on, 4e-5 has 30 and stays; it has then finished, too. 5e-5: 19 is below
# the median of 20, 22, 24, 30. 6e-5: 21 is below it as well.
LATER = {5e-5: 2, 6e-5: 2}
# The best three quarters of 10, 12, 14 are above 11, and 4e-5 is not below that. 5e-5: 13 is above
# the lowest quarter of 10, 11, 12, 14, and 19 is below that of 20, 22, 24, 30. 6e-5: as 5e-5, and
# 21 is below 21.5.
PERCENTILE = {5e-5: 2, 6e-5: 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pruner", "ended"),
    [
        ("{name: asha, reduction_factor: 2}", ASHA),
        ("{name: median, startup_configurations: 2}", MEDIAN),
        ("{name: median, startup_configurations: 2, first_evaluation: 2}", LATER),
        ("{name: percentile, keep_percent: 75, startup_configurations: 2}", PERCENTILE),
    ],
    ids=["asha", "median", "later", "percentile"],
)
def test_a_pruner_decides_as_by_hand(
    pruner: str, ended: dict[float, int], playing: Playing
) -> None:
    search = playing.search(GRID, f"pruner: {pruner}")
    played = playing.play(search, curve)
    assert played.rates == RATES
    assert played.stopped == ended
    for trial in played.ran:
        record = playing.store.get(key(trial))
        rate = trial.configuration["learning_rate"]
        assert record.status == ("pruned" if rate in ended else "finished")
        assert record.dev_score == CURVES[rate][ended.get(rate, 4) - 1]
    assert playing.over(search)  # the same command runs nothing
    scored = scored_of(search, search.configurations(0, []), playing.store)
    assert [(values["learning_rate"], dev) for values, dev in scored] == [
        (rate, CURVES[rate][-1]) for rate in RATES if rate not in ended
    ]


ASHA_OF_TWO = "pruner: {name: asha, reduction_factor: 2}"


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 3, 5])
def test_a_grid_that_was_killed_is_pruned_as_if_it_had_not_been(
    killed: int, playing: Playing
) -> None:
    """The driver dies after the first evaluation of a trial, also where it has just decided."""
    search = playing.search(GRID, ASHA_OF_TWO)
    with pytest.raises(Killed):
        playing.play(search, curve, kill_after=killed)
    resumed = playing.play(search, curve)
    assert resumed.rates == RATES[killed:]
    assert resumed.stopped == {rate: at for rate, at in ASHA.items() if rate in RATES[killed:]}


MANY = [round(1e-5 * number, 7) for number in range(1, 25)]
MANY_GRID = f"    grid: {{learning_rate: {MANY}}}\n"
SHAPES = random.Random(3)
MANY_CURVES = {rate: sorted(SHAPES.uniform(0, 90) for _ in range(4)) for rate in MANY}


def hyperband(name: str) -> dict[float, int]:
    """The rates that end early, by a plain loop over Hyperband's rules with a factor of 2.

    With four evaluations there are three brackets, whose rungs are at evaluations 1, 2, 4, at 2, 4,
    and at 4. The shares of the brackets follow from Li et al. (2018), section 3: the smallest whole
    number from 3 * 2 ** s / (s + 1) for s = 2, 1, 0.
    """
    shares = [4, 3, 3]
    rungs: dict[tuple[int, int], list[float]] = {}
    ended = {}
    for number, rate in enumerate(MANY):
        draw = zlib.crc32(f"{name}_{number}".encode()) % sum(shares)
        bracket = next(each for each in range(3) if draw < sum(shares[: each + 1]))
        for evaluation in range(1, 5):
            if evaluation not in [2**each for each in range(bracket, 3)]:
                continue
            competitors = rungs.setdefault((bracket, evaluation), [])
            score = MANY_CURVES[rate][evaluation - 1]
            competitors.append(score)
            going_on = sorted(competitors, reverse=True)[: max(1, len(competitors) // 2)]
            if score < going_on[-1] and evaluation < 4:
                ended[rate] = evaluation
                break
    return ended


@pytest.mark.slow
@pytest.mark.parametrize("killed", [None, 9])
def test_hyperband_decides_as_a_plain_loop(killed: int | None, playing: Playing) -> None:
    search = playing.search(
        MANY_GRID, "pruner: {name: hyperband, last_evaluation: 4, reduction_factor: 2}"
    )
    expected = hyperband(Study(search, playing.store).name)
    assert {*expected.values()} == {1, 2}

    def shown(trial: Trial) -> list[float]:
        return MANY_CURVES[trial.configuration["learning_rate"]]

    before = {}
    if killed is not None:
        with pytest.raises(Killed):
            playing.play(search, shown, kill_after=killed)
        before = {rate: at for rate, at in expected.items() if rate in MANY[:killed]}
    played = playing.play(search, shown)
    assert played.stopped | before == expected


@pytest.mark.slow
def test_a_pruned_record_gives_way_to_a_finished_one_only(playing: Playing) -> None:
    search = playing.search(GRID, "pruner: {name: asha, reduction_factor: 2}")
    played = playing.play(search, curve)
    record = playing.store.get(key(played.ran[3]))
    playing.store.write(replace(record, status="failed", reason="a planted fault", dev={}))
    assert playing.store.get(record.key) == record
    assert playing.store.finished_or_run(record.key, "", pytest.fail, search.id) == record
    again = replace(record, status="finished")
    assert playing.store.finished_or_run(record.key, "", lambda: again, "another") == again
    playing.store.write(record)
    assert playing.store.get(record.key) == again


def test_a_trial_that_has_done_its_last_step_has_finished(playing: Playing) -> None:
    """A trial is judged for the last time at its last evaluation, where ASHA has a rung."""
    search = playing.search(GRID, "pruner: {name: asha, first_evaluation: 4, reduction_factor: 2}")
    played = playing.play(search, lambda trial: [1, 2, 3, -trial.configuration["learning_rate"]])
    assert played.stopped == {}


def test_each_round_has_a_study_of_its_own(playing: Playing) -> None:
    """The second round varies what the first one does not have."""
    part = """\
    rounds:
      - learning_rate: [1.0e-5, 2.0e-5]
      - temperature: [0.05, 0.1]
"""
    search = playing.search(part, "pruner: asha")
    for number in (0, 1):
        best = {**search.fixed, "learning_rate": 1e-5}
        configurations = search.configurations(number, [(best, 1.0)] if number else [])
        study = Study(search, playing.store, f"round {number + 1}")
        playing.play(Configurations(search, study, playing.store, configurations), lambda _: [1.0])
        assert [len(trial.params) for trial in study.trials()] == [1 + number] * 2
    assert len(list(playing.store.studies_folder.glob("*.journal"))) == 2


SAMPLED = """\
    ranges: {learning_rate: {low: 1.0e-5, high: 1.0e-2, log: true}}
    sampler: {name: tpe, configurations: 12}
"""


def rising(trial: Trial) -> list[float]:
    best = 60 - 5000 * abs(trial.configuration["learning_rate"] - 1e-3)
    return [best - 3, best - 2, best - 1, best]


@pytest.mark.slow
def test_a_sampler_hears_of_pruned_configurations(playing: Playing) -> None:
    """They count towards the budget, and reach Optuna as pruned, with the score at their end."""
    search = playing.search(SAMPLED, ASHA_OF_TWO)
    played = playing.play(search, rising)
    assert len(played.ran) == 12
    trials = {trial.params["learning_rate"]: trial for trial in playing.study(search).trials()}
    assert played.stopped
    for rate, trial in trials.items():
        assert trial.state.name == ("PRUNED" if rate in played.stopped else "COMPLETE")
        record = playing.store.get(trial.user_attrs["trials"][0])
        assert record.dev_score == trial.value == trial.intermediate_values[trial.last_step]
    assert len(sampled_of(search, playing.store)) == 12 - len(played.stopped)
    assert sum(tried.is_complete for tried in tried_of(search, playing.store)) == 12
    playing.forget_studies()
    assert playing.over(search)
    states = [trial.state.name for trial in trials.values()]
    assert sorted(playing.states(search)) == sorted(states)


@pytest.mark.slow
def test_the_other_seeds_of_a_pruned_configuration_do_not_run(playing: Playing) -> None:
    """The pruner sees the first seed alone; the others are recorded without a score."""
    search = playing.search(GRID, ASHA_OF_TWO, "search: {seeds: [1, 2]}")
    played = playing.play(search, curve)
    assert [(trial.configuration["learning_rate"], trial.seed) for trial in played.ran] == [
        *((rate, seed) for rate in RATES[:3] for seed in (1, 2)),
        *((rate, 1) for rate in RATES[3:]),
    ]
    unrun = [record for record in playing.store.read().records() if not record.dev]
    values = {(row.status, row.seed, row.configuration["learning_rate"]) for row in unrun}
    assert values == {("pruned", 2, rate) for rate in ASHA}
    assert playing.over(search)


@pytest.mark.slow
def test_wilcoxon_stops_the_seeds_of_a_worse_configuration(playing: Playing) -> None:
    """One of n pairs that are all worse has p = 1 / 2**n: below 0.1 at the fourth seed.

    The first configuration is the best, the second is worse on every seed. The third one is better
    on one seed, so that p is 2 / 16 after four seeds and 2 / 32 after five.
    """
    scores = {
        1e-5: [50, 51, 52, 53, 54, 55],
        2e-5: [40, 42, 44, 46, 48, 50],
        3e-5: [40, 42, 44, 53.5, 48, 50],
    }
    grid = f"    grid: {{learning_rate: {list(scores)}}}\n"
    search = playing.search(grid, "pruner: wilcoxon", "search: {seeds: [1, 2, 3, 4, 5, 6]}")
    played = playing.play(
        search, lambda trial: [scores[trial.configuration["learning_rate"]][trial.seed - 1]]
    )
    ran = [(trial.configuration["learning_rate"], trial.seed) for trial in played.ran]
    ends = {1e-5: 6, 2e-5: 4, 3e-5: 5}
    assert ran == [(rate, seed) for rate, last in ends.items() for seed in range(1, last + 1)]
    assert Study(search, playing.store, "round 1").trials() == []
    assert playing.states(search) == ["COMPLETE", "PRUNED", "PRUNED"]
    assert playing.over(search)
