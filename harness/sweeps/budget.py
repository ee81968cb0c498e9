"""The time of a sweep (`--budget`): its searches share it, and its final seeds keep their part.

A trial of a search begins when it is likely to end in time, with what the final seeds of all
searches are going to take. The first configuration of every search always begins, and so do final
seeds, so that every search ends with a result.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from time import monotonic
from typing import Any

from harness.errors import UserError, counted
from harness.sweeps.spaces.search import Search


class Budget:
    """Whether one more trial of a search may begin. Without a limit, each may."""

    def __init__(
        self,
        seconds: float | None,
        searches: Iterable[Search],
        slots: Callable[[], int],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """seconds: of the whole sweep, from now on; None: no limit. slots: workers at a time.

        Raises UserError for a limit where no search tries anything.
        """
        searches = list(searches)
        if seconds is not None and not any(each.rounds or each.sampler for each in searches):
            raise UserError(
                "--budget limits how many configurations are tried, and here nothing is searched: "
                "leave it out"
            )
        self._end = math.inf if seconds is None else clock() + seconds
        self._slots, self._clock = slots, clock
        finals = {each.label: each.trials([each.fixed], "final") for each in searches}
        self._finals = {label: len(trials) for label, trials in finals.items()}
        """Label -> final trials that have not ended"""
        self._workers = {label: trials[0].workers for label, trials in finals.items()}
        self._least = {each.label: len(each.trials([each.fixed], "search")) for each in searches}
        """Label -> trials of its first configuration"""
        self._begun: Counter[str] = Counter()
        self._seconds: dict[str, list[float]] = {}
        """Label -> the seconds that each of its trials took"""
        self.left_out: Counter[str] = Counter()
        """Label -> trials of the search that did not begin; 0 where their number is not known"""

    def has_time(self, search: Search) -> bool:
        """Whether one more trial of the search may begin."""
        label = search.label
        if self._end == math.inf or self._begun[label] < self._least.get(label, 1):
            return True
        kept = sum(
            left * self._typical(other) * self._workers.get(other, 1)
            for other, left in self._finals.items()
        )
        return self._clock() + self._typical(label) + kept / max(1, self._slots()) <= self._end

    def began(self, search: Search) -> None:
        """A trial of the search begins."""
        self._begun[search.label] += 1

    def finals(self, search: Search, left: int) -> None:
        """The final trials of the search begin, of which so many are left."""
        self._finals[search.label] = left

    def ended(self, search: Search, report: Mapping[str, Any], *, final: bool = False) -> None:
        """A trial of the search has ended."""
        if final:
            self._finals[search.label] = max(0, self._finals.get(search.label, 0) - 1)
        if report["status"] == "finished":
            self._seconds.setdefault(search.label, []).append(report.get("seconds") or 0.0)

    def _typical(self, label: str) -> float:
        """Seconds of a trial: the mean of its search, or else of all; 0 before any has ended."""
        taken = self._seconds.get(label) or [each for few in self._seconds.values() for each in few]
        return fmean(taken) if taken else 0.0


def out_of_time(left_out: Mapping[str, int]) -> list[str]:
    """A sentence for each search of which a budget left trials out."""
    return [
        "The budget had no time for "
        f"{counted(count, 'trial') if count else 'further configurations'} of {label}: its choice "
        f"is among those that ran, and the same command goes on."
        for label, count in left_out.items()
    ]
