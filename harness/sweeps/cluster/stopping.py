"""The stop of a sweep on Ray by a signal: its trials give way, and then it ends."""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from harness.errors import SweepStopped
from harness.sweeps.workers.limits import stop_note
from harness.training.interruption import STOPS, handled, outside
from harness.trials.run import GIVE_WAY
from harness.trials.store import Store

PATIENCE_SECONDS = 60.0
"""Longest wait for the checkpoints; schedulers kill a job some minutes after their first signal"""


class Stopping:
    """Stop of a sweep by Ctrl-C, SIGTERM or SIGHUP while trials run.

    The first one asks the trials to give way; Tune goes on meanwhile, because a worker that reports
    waits until it is heard. A trial that does not train at the moment, for example because it is
    being tested, is not waited for longer than a minute. A second signal ends the sweep at once.
    """

    def __init__(
        self, store: Store, sweep: str, running: Collection[str], say: Callable[[int], None]
    ) -> None:
        """`sweep`: identifier of this run of a sweep. `running`: the keys of the jobs that run now.

        `say`: hears how many trials are asked.
        """
        self.store, self.running, self.say = store, running, say
        self.note = stop_note(store.running_folder, sweep)
        self._signals = 0
        self._left: set[str] = set()
        """The keys of the trials that are asked and have not given way"""
        self._asked: set[str] = set()
        self._until: float | None = None

    @property
    def asked(self) -> bool:
        """Whether the sweep is to end."""
        return self._signals > 0 or outside.is_set()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """In the block, the signals of `STOPS` are noted; `look` acts on them."""
        try:
            with handled(self._signalled, *STOPS):
                yield
        except SweepStopped:
            # Who sends SIGTERM to all processes of a command, as `timeout` does, ends Ray, too.
            if self.asked:
                raise KeyboardInterrupt from None
            raise
        finally:
            self.store.remove_note(self.note)
            with suppress(OSError):  # other sweeps run
                self.note.parent.rmdir()

    def look(self) -> None:
        """Raise KeyboardInterrupt when the sweep is to end and its trials have given way."""
        if not self.asked:
            return
        if self._until is None:
            self._until = time.monotonic() + PATIENCE_SECONDS
            self.store.leave_note(self.note)
            self._ask()
            self.say(len(self._left))
        else:
            self._ask()  # one may have begun in the moment before the note was there
        if not self._left or time.monotonic() > self._until:
            raise KeyboardInterrupt

    def _ask(self) -> None:
        """Ask the trials that run to give way, each once."""
        self._left &= set(self.running)
        for key in self.running:
            if key not in self._asked and self.store.owner(key) is not None:
                self.store.leave_note(self.store.running(key) / GIVE_WAY)
                self._asked.add(key)
                self._left.add(key)

    def _signalled(self, *_: object) -> None:
        self._signals += 1
        if self._signals > 1:
            raise KeyboardInterrupt
