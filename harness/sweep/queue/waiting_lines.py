"""The lines in which jobs wait for a worker, and whose turn it is."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from harness.sweep.queue.trial_sources import Line


class WaitingLines:
    """The keys of jobs that wait, each in its line; parts that trials share are in the line None.

    The next worker goes to the line of which the fewest jobs run; of equal ones, to the one that
    has waited for the longest time.
    """

    def __init__(self) -> None:
        self._waiting: dict[Line | None, deque[str]] = defaultdict(deque)
        self._line_of: dict[str, Line | None] = {}
        self._running: Counter[Line | None] = Counter()
        self._turns: dict[Line | None, int] = {}
        """Line -> the number of the last job that it has had"""

    def append(self, key: str, line: Line | None = None) -> None:
        """The job waits at the end of this line; where it has been in one, at the end of that."""
        line = self._line_of.setdefault(key, line)
        self._waiting[line].append(key)

    def go_on(self, keys: Sequence[str]) -> None:
        """The jobs have waited for something else, and are in front of their lines again."""
        for key in reversed(keys):
            self._waiting[self._line_of[key]].appendleft(key)

    def pop(self, line: Line | None) -> str | None:
        """Take the first key of a line; None when it has none."""
        waiting = self._waiting.get(line)
        return waiting.popleft() if waiting else None

    def waits_in(self, line: Line) -> bool:
        """Whether a job waits in this line."""
        return bool(self._waiting.get(line))

    def in_turn(self, lines: Sequence[Line]) -> Iterator[Line | None]:
        """The line of parts, and then these lines in the order in which they get a worker."""
        yield None
        yield from sorted(lines, key=lambda line: (self._running[line], self._turns.get(line, 0)))

    def begun(self, key: str) -> None:
        """A worker has the job."""
        line = self._line_of[key]
        self._running[line] += 1
        self._turns[line] = max(self._turns.values(), default=0) + 1

    def left(self, key: str) -> None:
        """No worker has the job any longer."""
        self._running[self._line_of[key]] -= 1

    def __iter__(self) -> Iterator[str]:
        """The keys of all jobs that wait."""
        return chain.from_iterable(self._waiting.values())

    def remove(self, keys: Iterable[str]) -> None:
        """These jobs wait for something else."""
        gone = set(keys)
        for line, waiting in self._waiting.items():
            self._waiting[line] = deque(key for key in waiting if key not in gone)
