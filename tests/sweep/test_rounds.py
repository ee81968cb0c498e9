"""The rounds of a sweep are one source of trials, and the feed of Tune ends after many jobs."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.sweep.gpu_share import GpuShares
from harness.sweep.trial_queue import TrialQueue
from harness.sweep.trial_sources import Listed, Rounds, TrialSource
from harness.trials.store import Store
from harness.trials.trial import Trial

FINISHED = {"status": "finished", "reason": None, "dev": 1.0, "cost": 0.0, "seconds": 0.0}
Running = Generator[TrialSource, None, str]


def trials(*keys: str) -> dict[str, Trial]:
    """Key -> trial."""
    values = {"encoder": "tiny-bert", "suite": "graded"}
    return {key: Trial("pooling", values, seed) for seed, key in enumerate(keys)}


def test_a_round_begins_when_all_trials_of_the_one_before_have_ended() -> None:
    ended: list[str] = []
    seen: list[list[str]] = []

    def rounds() -> Running:
        yield Listed(trials("a", "b"))
        seen.append(sorted(ended))
        yield Listed({})  # nothing is left to run
        yield Listed(trials("c"))
        return "best"

    def run(source: TrialSource) -> None:
        assert set(source.more()) == {"a", "b"}
        for key in "ab":
            assert source.more() == {}
            assert not source.exhausted
            ended.append(key)
            source.ended(key, FINISHED)
        assert set(source.more()) == {"c"}
        source.ended("c", FINISHED)
        assert source.more() == {}
        assert source.exhausted

    assert Rounds(rounds()).run(run) == "best"
    assert seen == [["a", "b"]]


def test_without_a_trial_nothing_is_run() -> None:
    def rounds() -> Running:
        yield from ()
        return "nothing"

    assert Rounds(rounds()).run(lambda _: pytest.fail("Ray starts")) == "nothing"


def test_what_goes_wrong_between_rounds_ends_the_sweep_with_its_sentence() -> None:
    def rounds() -> Running:
        yield Listed(trials("a"))
        raise UserError("a model is missing")

    def run(source: TrialSource) -> None:
        source.ended(*source.more(), FINISHED)
        assert source.more() == {}
        assert source.exhausted

    with pytest.raises(UserError, match="a model is missing"):
        Rounds(rounds()).run(run)


def test_a_run_of_tune_ends_after_many_jobs_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.sweep import relay

    monkeypatch.setattr(relay, "MOST_JOBS", 2)
    store = Store(tmp_path)
    queue = TrialQueue(Listed(trials("a", "b", "c")), store, set())
    shares = GpuShares(0.0, [], 0, store)

    def keys() -> list[Any]:
        feed = relay.Feed(queue, shares, None)
        found = [feed.suggest(str(number)) for number in range(4)]
        return [each if isinstance(each, str | None) else each["key"] for each in found]

    ended = relay.Searcher.FINISHED
    assert keys() == ["a", "b", ended, ended]
    for key in "ab":
        queue.ended(key, FINISHED)
    assert keys() == ["c", None, None, None]
    queue.ended("c", FINISHED)
    assert keys() == [ended] * 4
