"""The study of a search is on disk: a search that was stopped goes on as if it had not been."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.trial import TrialState

from harness import PROTOCOL
from harness.claims import Claim
from harness.sweeps.plan import plan_sweep
from harness.sweeps.scored import COST_MARGIN, chosen_of, sampled_of, tried_of
from harness.sweeps.study import TPE_WINDOW, Study
from harness.trials.store import Store
from harness.trials.trial import Trial, describe
from tests.sweep.conftest import HandPool, Hurried, Killed, Playing, settled, to_run

RANGES = """\
    ranges:
      learning_rate: {{low: 1.0e-5, high: 1.0e-2, log: true}}
      temperature: {{low: 0.01, high: 0.1}}
    sampler: {{name: {name}, configurations: {configurations}, seed: 3}}
"""
SAMPLERS = ["tpe", "random", "cma-es", "qmc", "gp", "nsga-ii", "nsga-iii"]


def ranges(name: str = "tpe", configurations: int = 6) -> str:
    return RANGES.format(name=name, configurations=configurations)


def score(trial: Trial) -> list[float]:
    """The best learning rate is 1e-3; the curve rises to the score."""
    best = 60 - 1000 * abs(trial.configuration["learning_rate"] - 1e-3)
    return [best - 2, best - 1, best]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_search_that_was_killed_ends_as_if_it_had_not_been(name: str, playing: Playing) -> None:
    """Every sampler; QMC would repeat its points if its study began anew."""
    if name == "cma-es":
        pytest.importorskip("cmaes")
    search = playing.search(ranges(name))
    undisturbed = playing.play(search, score).rates
    assert len(set(undisturbed)) == 6
    for folder in (playing.store.folder, playing.store.studies_folder):
        shutil.rmtree(folder)
    with pytest.raises(Killed):
        playing.play(search, score, kill_after=3)
    assert playing.states(search) == ["COMPLETE"] * 3 + ["RUNNING"]
    resumed = playing.play(search, score)
    assert resumed.rates == undisturbed[3:]
    assert playing.states(search) == ["COMPLETE"] * 6


@pytest.mark.slow
def test_tpe_learns_from_the_newest_configurations(tmp_path: Path, playing: Playing) -> None:
    """The scores of older ones change nothing, also for a process that goes on later."""
    search = playing.search(ranges())

    def suggested(first: float, count: int) -> list[dict[str, object]]:
        """Two suggestions after so many configurations; `first`: the score of the first eight."""
        store = Store(tmp_path / f"{first} {count}" / "store")
        study = Study(search, store)
        study.finished(study.add({"learning_rate": 1e-3, "temperature": 0.05}), 1, 1)
        *head, added, ended = map(json.loads, study.path.read_text().splitlines())
        for place in range(count):
            values = {"learning_rate": 1e-5 * 1.006**place, "temperature": 0.01 + place / 12_000}
            score = first if place < 8 else place
            head += [added | {"params": values}, ended | {"trial_id": place, "values": [score]}]
        study.path.write_text("".join(f"{json.dumps(line)}\n" for line in head))
        return [Study(search, store).ask()[1] for _ in range(2)]

    for older in (8, 0):
        one, other = (suggested(score, TPE_WINDOW + older) for score in (9000.0, -9000.0))
        assert (one == other) == (older > 0)


@pytest.mark.slow
def test_a_higher_budget_adds_only_the_difference(playing: Playing) -> None:
    """Another program opens the study."""
    assert len(playing.play(playing.search(ranges(configurations=2)), score).ran) == 2
    source = playing.source(playing.search(ranges(configurations=5)))
    assert (to_run(source), source.settled_count) == (3, 2)
    assert len(playing.play(source, score).ran) == 3
    assert playing.over(playing.search(ranges(configurations=5)))
    [path] = playing.store.studies_folder.iterdir()
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    [name] = optuna.get_all_study_names(storage)
    assert name == f"simcse unsup tiny-bert {source.search.id}"
    for trial in optuna.load_study(study_name=name, storage=storage).trials:
        records = [playing.store.get(key) for key in trial.user_attrs["trials"]]
        assert [record.dev_score for record in records] == trial.values
        assert list(trial.intermediate_values) == [1, 2, 3]


@pytest.mark.slow
def test_a_study_that_was_deleted_is_made_again_from_the_store(playing: Playing) -> None:
    search = playing.search(ranges())
    with pytest.raises(Killed):
        playing.play(search, score, kill_after=4)
    before = {tuple(trial.params.values()) for trial in playing.study(search).trials()[:4]}
    playing.forget_studies()
    resumed = playing.play(search, score)
    assert len(resumed.ran) == 2
    trials = playing.study(search).trials()
    assert {tuple(trial.params.values()) for trial in trials[:4]} == before
    assert all(len(trial.intermediate_values) == 3 for trial in trials)
    # The store is the ledger: what only the study knows does not count.
    shutil.rmtree(playing.store.folder)
    assert len(playing.play(search, score).ran) == 6
    assert len(sampled_of(search, playing.store)) == 6


@pytest.mark.slow
def test_what_the_store_finished_while_the_driver_was_away_is_not_run_again(
    tmp_path: Path, playing: Playing
) -> None:
    """The worker writes its record, and the driver dies before it hears of that."""
    search = playing.search(ranges(configurations=3))
    with pytest.raises(Killed):
        playing.play(search, score, kill_after=1)
    [_, running] = playing.study(search).trials()
    shutil.copytree(playing.store.studies_folder, tmp_path / "copy")
    rest = playing.play(search, score)  # it finishes the second configuration, and a third
    assert rest.ran[0].configuration["learning_rate"] == running.params["learning_rate"]
    playing.forget_studies()
    shutil.move(tmp_path / "copy", playing.store.studies_folder)
    assert playing.play(search, score).ran == []
    assert playing.states(search) == ["COMPLETE"] * 3


DAMAGE: dict[str, Callable[[list[bytes]], bytes]] = {
    "json": lambda lines: b"\n".join([lines[0], b"{no json", *lines[1:]]),
    "list": lambda lines: b"\n".join([b"[]", *lines]),
    "operation": lambda _: b'{"op_code": 77, "worker_id": "x"}\n',
    "bytes": lambda lines: b"\xff\xfe\n" + b"\n".join(lines),
    "half a line": lambda lines: b"\n".join(lines) + b'{"op_code":6,"trial',
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_study_is_set_aside_with_one_sentence(
    kind: str, playing: Playing, caplog: pytest.LogCaptureFixture
) -> None:
    """But not half a line at the end, as a process leaves that is killed while it writes."""
    search, noticed = playing.search(ranges(configurations=3)), kind != "half a line"
    with pytest.raises(Killed):
        playing.play(search, score, kill_after=2)
    [path] = playing.store.studies_folder.iterdir()
    path.write_bytes(DAMAGE[kind](path.read_bytes().split(b"\n")))
    assert len(playing.play(search, score).ran) == 1
    lines = [entry.message for entry in caplog.records if entry.name.startswith("harness")]
    assert [f"the study {path} is damaged" in line for line in lines] == [True] * noticed
    assert playing.states(search) == ["COMPLETE"] * 3
    assert len(list(playing.store.studies_folder.iterdir())) == 1 + noticed  # it is kept


def test_a_plan_counts_the_seeds_of_a_configuration_that_was_stopped(playing: Playing) -> None:
    search = playing.search(ranges(configurations=3), "search: {seeds: [1, 2]}")
    with pytest.raises(Killed):
        playing.play(search, score, kill_after=3)
    [line, _] = plan_sweep([search], playing.store).lines
    assert (line.trials, line.stored, line.to_run, line.at_most) == (6, 3, 3, 3)
    assert len(playing.play(search, score).ran) == 3
    [line, _] = plan_sweep([search], playing.store).lines
    assert (line.trials, line.stored, line.to_run, line.at_most) == (6, 6, 0, 0)


def test_a_plan_counts_what_another_search_has_run(playing: Playing) -> None:
    """The first configurations of TPE are random ones, and those of the same seed."""
    playing.play(playing.search(ranges("random", configurations=4)), score)
    search = playing.search(ranges("tpe", configurations=3))
    assert playing.play(search, score).ran == []
    [line, final] = plan_sweep([search], playing.store).lines
    assert (line.stored, line.to_run, final.decided) == (3, 0, True)
    assert len(sampled_of(search, playing.store)) == 3


def test_a_sampler_waits_for_scores_before_it_goes_on(playing: Playing) -> None:
    source = playing.source(playing.search(ranges(configurations=3), "search: {seeds: [1, 2]}"))

    async def scenario() -> None:
        pool = HandPool()
        task = asyncio.create_task(source.run(pool.runs(playing.store), lambda: pool.slots))
        await settled()
        [first] = pool.running
        await pool.end(first)
        assert len(pool.begun) == 2, "there are two seeds of one configuration"
        await pool.end(pool.keys[1], "failed", dev=None)
        assert playing.states(source.search) == ["FAIL", "RUNNING"]
        task.cancel()

    asyncio.run(scenario())


def test_two_sweeps_of_one_search_share_its_study(playing: Playing) -> None:
    """Each has the other's configurations, both end with the budget, and each trial runs once."""
    search = playing.search(ranges(configurations=3))
    one, two = playing.source(search), playing.source(search)

    async def scenario() -> None:
        pools = HandPool(), HandPool()
        tasks = [asyncio.create_task(one.run(pools[0].runs(playing.store), lambda: 1))]
        await settled()
        [first] = pools[0].running
        claim = Claim(playing.store.claim(first))
        claim.take()
        tasks.append(asyncio.create_task(two.run(pools[1].runs(playing.store), lambda: 1)))
        until = time.monotonic() + 60
        while not pools[1].running and time.monotonic() < until:
            await asyncio.sleep(0.01)
        [second] = pools[1].running  # the first one waits for the claim, and holds no slot
        assert second != first
        claim.release()
        await pools[0].end(first)
        await pools[1].end(second)
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.01)
            for pool in pools:
                for name in list(pool.running):
                    await pool.end(name)
        assert len({*pools[0].keys, *pools[1].keys}) == 3

    with asyncio.Runner(loop_factory=Hurried) as runner:
        runner.run(scenario())
    assert to_run(one) == to_run(two) == 0
    assert playing.states(search) == ["COMPLETE"] * 3


def test_failures_do_not_count_towards_the_budget_of_the_next_command(playing: Playing) -> None:
    """Nor trials of another protocol: their search is the same, and their keys are not."""
    search = playing.search(ranges(configurations=3))
    fails = iter([True, False, True])
    playing.play(search, lambda trial: [] if next(fails) else score(trial))
    assert len(playing.play(search, score).ran) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.trials.trial.PROTOCOL", PROTOCOL + 1)
        source = playing.source(search)
        assert (to_run(source), source.settled_count) == (3, 0)
        assert sampled_of(search, playing.store) == []
        assert len(playing.play(source, score).ran) == 3
        assert len(sampled_of(search, playing.store)) == 3
        assert playing.over(search)


@pytest.mark.slow
def test_a_budget_in_hours_and_a_sampler_without_another_configuration(playing: Playing) -> None:
    """A played trial takes an hour."""
    search = playing.search(ranges().replace("configurations: 6", "hours: 2.5"))
    source = playing.source(search)
    assert source.more() is None
    assert len(playing.play(source, score).ran) == 3
    assert playing.over(search)
    # Neither its final trials nor another search take of its hours, and a failed trial does.
    finals = search.trials([sampled_of(search, playing.store)[0][0]], "final")
    for trial in finals:
        playing.store.write(replace(describe(trial), status="finished", wall_seconds=3600.0))
    longer = playing.search(ranges().replace("configurations: 6", "hours: 4.5"))
    [line, _] = plan_sweep([longer], playing.store).lines
    assert line.whole.seconds.most == 1.5 * 3600
    assert len(playing.play(longer, lambda _: []).ran) == 2
    [line, _] = plan_sweep([longer], playing.store).lines
    assert playing.over(longer)
    assert line.at_most == 0
    # A sampler that has no other configuration ends.
    part = "    ranges: {learning_rate: [1e-3, 1e-4]}\n    sampler: {name: random, hours: 99}\n"
    assert sorted(playing.play(playing.search(part), score).rates) == [1e-4, 1e-3]


CONDITIONAL = """\
    ranges:
      head: [tanh, batchnorm]
      masked_language_weight: [0.1, 0.5]
      learning_rate: {low: 1.0e-5, high: 1.0e-2, log: true, when: {head: tanh}}
      masking_ratio: {values: [0.2, 0.3], when: {head: batchnorm, masked_language_weight: 0.1}}
      weight_decay: {low: 0.1, high: 0.2, when: {masked_language_weight: 0.5}}
    sampler: {configurations: 12}
"""


@pytest.mark.slow
def test_conditional_ranges(playing: Playing) -> None:
    """A range applies where the head has its value. --set fixes the weight, and so a condition."""
    search = playing.search(CONDITIONAL, masked_language_weight=0.1)
    assert list(search.ranges) == ["head", "learning_rate", "masking_ratio"]
    playing.play(search, lambda _: [50.0])
    trials = playing.study(search).trials()
    of_heads = {("head", "learning_rate"), ("head", "masking_ratio")}
    assert {tuple(trial.params) for trial in trials} == of_heads
    usual = {"tanh": ("masking_ratio", 0.15), "batchnorm": ("learning_rate", 3e-5)}
    for tried in tried_of(search, playing.store):
        other, value = usual[tried.values["head"]]
        assert tried.values[other] == value
    playing.forget_studies()
    before = {frozenset(trial.params.items()) for trial in trials}
    assert playing.over(search)
    assert {frozenset(trial.params.items()) for trial in playing.study(search).trials()} == before


@pytest.mark.slow
def test_the_front_of_dev_and_cost(playing: Playing) -> None:
    """More steps give more points, but ever fewer: the cheapest within the margin is chosen."""
    part = """\
    ranges: {max_steps: {low: 1, high: 8, step: 1}}
    sampler: {name: nsga-ii, configurations: 20}
"""
    search = playing.search(part, "select: [dev, cost]")
    points = {steps: 60 - 4 / steps for steps in range(1, 9)}
    playing.play(search, lambda trial: [points[trial.configuration["max_steps"]]])
    study = Study(search, playing.store)
    complete = [trial for trial in study.trials() if trial.state == TrialState.COMPLETE]
    values = {trial.params["max_steps"]: trial.values for trial in complete}
    assert values == {steps: [points[steps], float(steps)] for steps in values}
    scored = sampled_of(search, playing.store)
    chosen = chosen_of(search, scored, playing.store)["max_steps"]
    near = [steps for steps in values if points[steps] >= points[max(values)] - COST_MARGIN]
    assert chosen == min(near) < max(values)


def test_steps_are_exact_decimals(playing: Playing) -> None:
    """Values are as in a grid; a condition on one of them holds, and nothing is drawn again."""
    part = """\
    ranges:
      temperature: {low: 0.01, high: 0.1, step: 0.01}
      learning_rate: {low: 1.0e-5, high: 1.0e-2, when: {temperature: [0.06, 0.07, 0.1]}}
    sampler: {name: random, configurations: 16}
"""
    search = playing.search(part)
    drawn = [
        trial.configuration["temperature"] for trial in playing.play(search, lambda _: [50.0]).ran
    ]
    assert {0.06, 0.07, 0.1} <= {*drawn} <= {number / 100 for number in range(1, 11)}
    trials = playing.study(search).trials()
    steered = sum("learning_rate" in trial.params for trial in trials)
    assert steered == sum(value in (0.06, 0.07, 0.1) for value in drawn)
    assert playing.over(search)
    playing.forget_studies()
    assert playing.over(search)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "tpe", "qmc"])
def test_a_range_of_a_whole_number(name: str, playing: Playing) -> None:
    for axis, distribution in (
        ("{low: 2, high: 20}", IntDistribution(2, 20)),
        ("{low: 2, high: 64, log: true}", IntDistribution(2, 64, log=True)),
        ("{low: 2, high: 21, step: 4}", IntDistribution(2, 18, step=4)),
    ):
        sampler = f"    sampler: {{name: {name}, configurations: 4}}\n"
        search = playing.search(f"    ranges: {{batch_size: {axis}}}\n{sampler}")
        played = playing.play(search, lambda _: [50.0])
        drawn = [trial.configuration["batch_size"] for trial in played.ran]
        assert {type(value) for value in drawn} == {int}
        low, high, step = distribution.low, distribution.high, distribution.step
        assert all(low <= value <= high and (value - low) % step == 0 for value in drawn)
        assert {*playing.study(search).trials()[0].distributions.values()} == {distribution}
        playing.forget_studies()  # the store has whole numbers, too
        assert playing.over(search)
        shutil.rmtree(playing.store.folder)
        playing.forget_studies()
