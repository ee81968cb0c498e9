"""The ranks of a trial on Ray: each is an actor in the trial's placement group.

Ray reserves the group as a whole or not at all. Rank 0 is the worker that has the trial.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.util import get_current_placement_group, get_node_ip_address, placement_group_table
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from harness.errors import WorkerLost
from harness.ranks import is_lost
from harness.sweeps.machines import Limits
from harness.sweeps.workers.files import receive
from harness.sweeps.workers.limits import Watchdog
from harness.trials.follower import follow
from harness.trials.lookup import provide_models
from harness.trials.output import KEPT_BYTES, last_lines
from harness.trials.remote_store import store_at
from harness.trials.trial import Trial, arrived, portable
from harness.trials.workers import (
    END_SECONDS,
    Peers,
    RankLauncher,
    RankSpec,
    on_loopback,
    worker_name,
)


class Rank:
    """A rank of a trial other than rank 0, which keeps within the limits of each worker."""

    def __init__(self, key: str, sweep: str, limits: Limits) -> None:
        """`key`: that of the trial. `sweep`: identifier of this run of a sweep."""
        self.key, self.sweep, self.limits = key, sweep, limits

    def ready(self, trial: dict[str, Any], store: str, files: dict[str, Any] | None) -> None:
        """Get what the trial needs. Raises UserError when something is missing."""
        if files:
            receive(**files)
        self.trial = arrived(trial)
        self.running = store_at(store).running(self.key)
        provide_models(store_at(store), self.trial)

    def follow(self, rank: RankSpec) -> None:
        """Be the rank until the trial ends. Raises whatever ends it before its time.

        When it takes too much, its process ends, and the folder of the running trial has the note
        with which the next attempt of the trial becomes a failure (harness.sweeps.workers.limits).
        """
        self.running.mkdir(parents=True, exist_ok=True)
        name = worker_name(rank.number, rank.count)
        log = _output(self.running, rank.number)
        on_network = on_loopback() if rank.address.startswith("file:") else nullcontext()
        watching = Watchdog.here().watching(self.running, log, self.sweep, self.limits, name)
        with watching, on_network:
            follow(self.trial, rank)


def _output(running: Path, number: int) -> Path:
    """The file in the folder of a running trial with what a rank prints."""
    return running / f"output-{number}.txt"


class _Actors:
    """The ranks that are actors, as rank 0 sees them."""

    def __init__(
        self, actors: list[Any], ranks: list[RankSpec], begun: list[Any], group: Any
    ) -> None:
        """`begun`: the answers of `ready`. `group`: the placement group of all ranks."""
        self._actors, self._ranks, self._waiting = actors, ranks, begun
        self._group, self._follow = group, False

    def ready(self) -> bool:
        if why := self._ended(0):
            raise WorkerLost(why)
        # A place whose machine was lost between two trials may never come back.
        if placement_group_table(self._group)["state"] != "CREATED":
            raise WorkerLost("another worker has lost its place: its machine was lost")
        if not self._follow and not self.running():
            pairs = zip(self._actors, self._ranks, strict=True)
            self._waiting = [actor.follow.remote(rank) for actor, rank in pairs]
            self._follow = True
        return self._follow

    def reason(self) -> str | None:
        return self._ended(END_SECONDS)

    def running(self) -> list[int]:
        count = len(self._waiting)
        _, left = ray.wait(self._waiting, num_returns=count, timeout=0)
        return [self._waiting.index(answer) + 1 for answer in left]

    def _ended(self, seconds: float) -> str | None:
        """Why the first rank has ended that failed by itself."""
        until, left = time.monotonic() + seconds, self._waiting
        while left:
            patience = max(0.0, until - time.monotonic())
            done, left = ray.wait(left, num_returns=1, timeout=patience)
            if not done:
                return None
            try:
                ray.get(done)
            except ray.exceptions.RayTaskError as error:
                if not is_lost(error.cause):
                    return f"{self._name(done[0])}: {error.cause}"
            except ray.exceptions.RayError:
                return f"{self._name(done[0])}: it died, or its machine was lost"
        return None

    def _name(self, answer: Any) -> str:
        return worker_name(self._waiting.index(answer) + 1, len(self._waiting) + 1)


def in_this_group(
    settings: Mapping[str, Any], store: str, sweep: str, cpus: float, limits: Limits
) -> RankLauncher:
    """A function that starts the other ranks in the placement group of this worker.

    `settings`: of the job. `store`: its address. `sweep`: identifier of this run of a sweep.
    `cpus`: of one rank. `limits`: of one rank; rank 0 alone looks at the time.
    """
    limits = replace(limits, seconds=None)

    @contextmanager
    def launch(trial: Trial, count: int) -> Iterator[tuple[Peers, RankSpec]]:
        group = get_current_placement_group()
        actors = [
            ray.remote(Rank)
            .options(
                num_cpus=cpus,
                num_gpus=limits.gpus,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
            )
            .remote(settings["key"], sweep, limits)
            for number in range(1, count)
        ]
        plain, threads = portable(trial), max(1, int(cpus))
        try:
            with _meeting() as address:
                ranks = [RankSpec(number, count, address, threads) for number in range(count)]
                begun = [actor.ready.remote(plain, store, settings["files"]) for actor in actors]
                yield _Actors(actors, ranks[1:], begun, group), ranks[0]
        finally:
            for actor in actors:
                ray.kill(actor)
            # Of a rank on another machine only where all have the folder of the store in common.
            for number in range(1, count):
                output = _output(store_at(store).running(settings["key"]), number)
                for line in last_lines(output, KEPT_BYTES).splitlines():
                    print(f"{worker_name(number, count)}: {line}")

    return launch


@contextmanager
def _meeting() -> Iterator[str]:
    """Address at which the ranks find one another: on loopback, or in the network of a cluster."""
    if not os.environ.get("RAY_ADDRESS"):
        with on_loopback() as address:
            yield address
        return
    # It takes a free port and keeps it until the ranks have ended.
    host = get_node_ip_address()
    meeting = TCPStore(host, 0, is_master=True, wait_for_workers=False)
    yield f"tcp://{host}:{meeting.port}"
