"""The trials of a sweep that wait for a worker, and those that wait for something else."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import UserError
from harness.sweep.queue.trial_sources import Line, TrialSource
from harness.sweep.queue.waiting_lines import WaitingLines
from harness.trials.shared_parts import Part, missing_parts
from harness.trials.store import Store
from harness.trials.trial import Trial

LOOK_SECONDS = 2.0
"""Time between two looks at the claims of other processes"""
PROBE_SECONDS = 5.0
"""Time after which one trial tries whether another process still makes what several wait for"""


@dataclass(frozen=True)
class Job:
    """What a worker does: it runs a trial, or makes a part that this trial and others need."""

    key: str
    trial: Trial
    part: Part | None = None
    asked: frozenset[int] = frozenset()
    """The steps after which trials end the first stage, when this is the part"""

    def joined(self, other: "Job") -> "Job":
        """One job for a part that two trials need: of two first stages, the longer one."""
        assert self.part
        assert other.part
        longer = max(self, other, key=lambda job: job.part.steps if job.part else 0)
        return replace(longer, asked=self.asked | other.asked)


class TrialQueue:
    """Hands out trials one after the other, and before them the parts that they share.

    A trial occupies no worker while it waits for a part, or while another process runs it or makes
    what it needs; the other trials go first.
    """

    def __init__(
        self,
        source: TrialSource,
        store: Store,
        made: set[str],
        *,
        slots: int = 1,
        only_parts: bool = False,
    ) -> None:
        """`made`: keys of the parts that this sweep has made; the queue adds to them.

        `slots`: how many trials run at a time. `only_parts`: no trial is handed out.
        """
        self.source, self.store, self.made, self.only_parts = source, store, made, only_parts
        self.slots = slots
        self._jobs: dict[str, Job] = {}
        """Key -> every trial that has not ended, and every part that is being made"""
        self._ready = WaitingLines()
        self.given: set[str] = set()
        """The keys of the jobs that workers have"""
        self._needs: dict[str, set[str]] = {}
        """Key of a trial -> keys of the jobs that it waits for: parts, or its encoder's training"""
        self._waiting: dict[str, str] = {}
        """Key of a job that waits for another process -> what it waits for"""
        self._tried: dict[str, float] = {}
        """What is waited for -> when a job last tried whether it is there"""
        self._looked = 0.0

    @property
    def finished(self) -> bool:
        """Whether all trials have ended and no further one will come."""
        return self.source.exhausted and not self._jobs

    def next(self) -> Job | None:
        """The next job; None when there is none at this moment."""
        self._look()
        lines = self.source.lines()
        for listed in lines:
            if not listed.learns:  # what several trials need follows from all of them
                self._add(listed)
        # What is suggested later is suggested better, so nothing is before a worker is free.
        if any(line.learns for line in lines) and len(self.given) >= self.slots:
            return None
        for line in self._ready.in_turn(lines):
            if line and line.learns and not self._ready.waits_in(line):
                self._add(line)
            if job := self._first_of(line):
                return job
        return None

    def _first_of(self, line: Line | None) -> Job | None:
        """The first job of a line that can begin now; a part that it needs goes before it."""
        while key := self._ready.pop(None) or self._ready.pop(line):
            job = self._jobs[key]
            if job.part is None and (self._waits_for_start(job) or self._waits_for_parts(job)):
                continue
            if job.part is None and self.only_parts:
                del self._jobs[job.key]
                self._release(job.key)
                continue
            if job.part and job.part.steps:
                job = self._longest(job)
            owner = self.store.owner(job.key)
            if owner is None:
                self.given.add(job.key)
                self._ready.begun(job.key)
                return job
            self.postponed(job.key, f"{owner} works on {job.trial.label}")
        return None

    def trial(self, key: str) -> Trial:
        """The trial of a job that has not ended; of a part, one of those that need it."""
        return self._jobs[key].trial

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """The job trains; returns whether it is a trial that is to end now, as pruned."""
        self._is_there(key)
        return self.source.progressed(key, report)

    def _is_there(self, key: str) -> None:
        """What the job waited for is there: the others need not wait any more."""
        why = self._waiting.get(key)
        if why is not None:
            del self._tried[why]
            waited = self._waits_for(why)
            for each in waited:
                del self._waiting[each]
                if each != key:
                    self._ready.append(each)

    def postponed(self, key: str, why: str) -> None:
        """The job waits for another process. `why`: what the other one does."""
        self._leave(key)
        self._waiting.pop(key, None)  # it goes behind the others that wait
        self._waiting[key] = why
        self._tried.setdefault(why, time.monotonic())

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """The trial has ended, or the part has been made or cannot be.

        The trials that need a part which cannot be made fail one by one, each with its reason.
        """
        self._is_there(key)
        self._leave(key)
        job = self._jobs.pop(key, None)
        if job is not None and job.part is None:
            self.source.ended(key, report)
        elif job is not None:
            self.made.add(key)
        self._release(key)

    def _leave(self, key: str) -> None:
        """No worker has the job any longer."""
        if key in self.given:
            self.given.discard(key)
            self._ready.left(key)

    def _release(self, key: str) -> None:
        """Let the trials go on that have waited for this job alone."""
        for needed in self._needs.values():
            needed.discard(key)
        free = [trial for trial, needed in self._needs.items() if not needed]
        for trial in free:
            del self._needs[trial]
        self._ready.go_on(free)

    def waiting_for(self, key: str) -> int:
        """The number of trials that wait for a part."""
        return sum(key in needed for needed in self._needs.values())

    def _add(self, line: Line) -> None:
        for key, trial in line.more().items():
            if key not in self._jobs:  # a sampler may suggest the same configuration twice
                self._jobs[key] = Job(key, trial)
                self._ready.append(key, line)

    def _waits_for_start(self, job: Job) -> bool:
        """Whether another trial of the queue has still to train the encoder of this one."""
        start = job.trial.start
        if start is None or start not in self._jobs:
            return False
        self._needs[job.key] = {start}
        return True

    def _waits_for_parts(self, job: Job) -> bool:
        """Whether the trial needs a part that is not there; the part goes first then."""
        try:
            missing = [part for part in missing_parts(job.trial) if part.key not in self.made]
        except UserError:  # the trial itself says in its record what is missing
            missing = []
        for part in missing:
            asked = frozenset({part.steps} if part.steps else ())
            wanted = Job(part.key, job.trial, part, asked)
            if part.key not in self._jobs:
                self._jobs[part.key] = wanted
                self._ready.append(part.key)
            elif part.key not in self.given:
                self._jobs[part.key] = self._jobs[part.key].joined(wanted)
        if missing:
            self._needs[job.key] = {part.key for part in missing}
        return bool(missing)

    def _longest(self, job: Job) -> Job:
        """The same first stage, up to the longest length that a trial in the queue asks for."""
        trials = [self._jobs[key] for key in self._ready if self._jobs[key].part is None]
        self._ready.remove({trial.key for trial in trials if self._waits_for_parts(trial)})
        return self._jobs[job.key]

    def _look(self) -> None:
        """Where several jobs wait for the same, let one of them try again when it is time."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for why in dict.fromkeys(self._waiting.values()):
            keys = self._waits_for(why)
            trying = any(key in self.given or key in self._ready for key in keys)
            if trying or now - self._tried[why] < PROBE_SECONDS:
                continue
            if self.store.owner(keys[0]) is None:
                self._tried[why] = now
                self._ready.append(keys[0])

    def _waits_for(self, why: str) -> list[str]:
        """The keys of the jobs that wait for this, the longest first."""
        return [key for key, waited in self._waiting.items() if waited == why]
