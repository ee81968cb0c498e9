"""Workers that end or hang: the sentence names the one that did, not those that waited for it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from harness import ranks
from harness.errors import WorkerLost
from harness.sweeps.workers import rank_actors
from harness.trials import workers
from harness.trials.run import attempt
from harness.trials.trial import Trial
from harness.trials.workers import RankSpec
from tests.programs import forking_python
from tests.sweeping import TRAINED, write_few_pairs

SECONDS = 30
"""Time that a rank waits for the others"""
HANG = """
        self.count = getattr(self, "count", 0) + 1
        if rank_number() == 2 and self.count == 3:
            time.sleep(10_000)
"""


# More than 20 s: a rank waits for another one, and then for the reason of its end.
@pytest.mark.slow
@pytest.mark.process
def test_a_worker_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three workers waits as the first one does."""
    plugin = tmp_path / "hanging.py"
    begin = "    def losses(self, batch, stage):"
    source = TRAINED.replace(begin, begin + HANG)
    constants = f"PAUSE = 0.0\nREPAIRED = {str(tmp_path / 'no')!r}\n"
    waits = f"from harness import ranks\nranks.RANK_SECONDS = {SECONDS}  # in every process\n"
    plugin.write_text(f"{waits}from harness.ranks import rank_number\n{constants}{source}")
    monkeypatch.setattr(sys, "executable", forking_python())
    monkeypatch.setattr(ranks, "RANK_SECONDS", SECONDS)
    values = {
        "encoder": "tiny-bert", "suite": str(write_few_pairs(tmp_path)),
        "sentences": "graded-sentences", "max_steps": 6, "evaluation_interval": 3,
        "precision": "fp32", "engine": "ddp", "workers": 3,
    }  # fmt: skip
    with pytest.raises(WorkerLost) as lost:
        attempt(Trial(str(plugin), values, seed=0), lambda _: None)
    assert str(lost.value) == (
        "no answer from worker 3 of 3; another attempt begins at step 0, without a checkpoint"
    )


# The actors of a cluster, whose answers are played


Played = Callable[..., rank_actors._Actors]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """played(answer, ...): three ranks beside rank 0 with these answers; None: it has not ended."""

    def of(*answers: Exception | str | None) -> rank_actors._Actors:
        def wait(asked: list[int], *, num_returns: int, timeout: float) -> tuple[Any, ...]:
            assert timeout <= workers.END_SECONDS
            done = [number for number in asked if answers[number] is not None][:num_returns]
            return done, [number for number in asked if number not in done]

        def get(number: Any) -> None:
            [number] = number if isinstance(number, list) else [number]
            if isinstance(answer := answers[number], Exception):
                raise answer

        monkeypatch.setattr(ray, "wait", wait)
        monkeypatch.setattr(ray, "get", get)
        ranks = [RankSpec(number, 4, "tcp://nowhere:1", 1) for number in (1, 2, 3)]
        return rank_actors._Actors([], ranks, [0, 1, 2], None)

    return of


def failed(cause: Exception) -> Exception:
    """Exception that Ray raises for an actor in which this was raised."""
    raised: Exception = ray.exceptions.RayTaskError("follow", "", cause)
    return raised


CLOSED = failed(RuntimeError("[gloo/transport/tcp/pair.cc:554] Connection closed by peer"))
DIED = ray.exceptions.ActorDiedError()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((CLOSED, DIED, CLOSED), "worker 3 of 4: it died, or its machine was lost"),
        ((CLOSED, None, failed(ValueError("own"))), "worker 4 of 4: own"),
        ((CLOSED, None, CLOSED), None),
        (("ended", CLOSED, "ended"), None),
    ],
)
def test_the_actor_that_ended_by_itself_is_named(
    played: Played, answers: tuple[Exception | str | None, ...], why: str | None
) -> None:
    assert played(*answers).reason() == why


def test_actors_that_have_not_ended_are_known(played: Played) -> None:
    assert played(CLOSED, None, CLOSED).running() == [2]
    assert played(CLOSED, DIED, "ended").running() == []
