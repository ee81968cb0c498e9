"""The courses of several searches, which go on side by side.

A course is a generator: it yields the phases of a search (its rounds or its sampler, then its final
seeds) one after the other, and each depends on what came of those before it. No course waits for
another one. For Ray they are one run, so that the workers stay, with what they have imported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import UserError
from harness.sweep.cost import long_first
from harness.sweep.queue.trial_sources import Line, Listed
from harness.sweep.spaces.search import Search
from harness.trials.trial import Trial

if TYPE_CHECKING:
    from harness.sweep.searching.suggestions import Suggestions


@dataclass(frozen=True)
class Phase:
    """What a search asks for at a time."""

    title: str
    """It is shown when the phase begins; "": other phases have its trials and show them"""
    search: Search
    trials: list[Trial]
    """Those that are known; none of a sampler"""
    source: "Callable[[], Suggestions] | None" = None
    """Makes what decides which trials run, and when; None: all that the store lacks"""


@dataclass(frozen=True)
class Begun:
    """What of a phase is to run."""

    trials: Mapping[str, Trial]
    """Key -> trial that the store lacks; none where a source decides"""
    source: "Suggestions | None" = None


def known_sum(numbers: Sequence[int | None]) -> int | None:
    """The sum; None when one of the numbers is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


class _Course:
    """A course, and the phase where it is. It is the line of what decides about its trials."""

    learns = True

    def __init__(self, phases: Iterator[Phase]) -> None:
        self._phases = phases
        self.title = ""
        self.left: set[str] = set()
        """The keys of the phase's trials that have not ended"""
        self.source: Suggestions | None = None

    def next_phase(self) -> Phase | None:
        """Go on to the next phase; None at the end of the course."""
        phase = next(self._phases, None)
        self.title = phase.title if phase else ""
        return phase

    def begin(self, begun: Begun) -> None:
        """Begin with the phase."""
        self.left, self.source = set(begun.trials), begun.source

    @property
    def over(self) -> bool:
        """Whether all trials of the phase have ended."""
        return not self.left and (self.source is None or self.source.exhausted)

    def more(self) -> Mapping[str, Trial]:
        """What the source suggests now."""
        found = self.source.more() if self.source else {}
        self.left.update(found)
        return found


class Courses:
    """The courses that go on. They are a source of trials.

    A trial for which two of them ask runs once. Where a course raises a UserError, it ends, and the
    others go on.
    """

    def __init__(
        self,
        begin: Callable[[Sequence[Phase]], Sequence[Begun]],
        underway: Callable[[list[str], int | None], None],
    ) -> None:
        """`begin`: says what of some phases is to run.

        `underway`: hears the titles of the phases that go on, and how many trials are left of them
        as far as it is known.
        """
        self._begin, self._underway = begin, underway
        self._courses: list[_Course] = []
        self._lists: list[tuple[Listed, set[str]]] = []
        """Trials of phases that began together, and the keys of those that have not ended"""
        self._error: UserError | None = None

    def add(self, phases: Iterator[Phase]) -> None:
        """Begin one more course."""
        self._courses.append(_Course(phases))

    def run(self, run: Callable[["Courses"], None]) -> None:
        """Run all with `run`, unless there is nothing to run.

        Raises what the first course that ended with an error has raised.
        """
        self._go_on()
        if not self.exhausted:
            run(self)
        if self._error:
            raise self._error

    def _go_on(self) -> None:
        """Begin with the next phase of each course whose phase is over."""
        changed = False
        while due := [course for course in self._courses if course.over]:
            changed = True
            try:
                self._next_phases(due)
            except UserError as error:  # Ray Tune, which asks for the trials, would wrap it
                self._end(due, error)
        if changed:
            titles = dict.fromkeys(each.title for each in self._courses if each.title)
            self._underway(list(titles), self._left)

    def _next_phases(self, due: list[_Course]) -> None:
        found: list[tuple[_Course, Phase]] = []
        for course in due:
            try:
                phase = course.next_phase()
            except UserError as error:
                self._end([course], error)
                continue
            if phase:
                found.append((course, phase))
            else:
                self._courses.remove(course)
        listed: dict[str, Trial] = {}
        begun = self._begin([phase for _, phase in found])
        for (course, _), each in zip(found, begun, strict=True):
            course.begin(each)
            listed |= each.trials
        if listed:
            self._lists.append((Listed(long_first(listed)), set(listed)))

    def _end(self, courses: list[_Course], error: UserError) -> None:
        self._error = self._error or error
        self._courses = [each for each in self._courses if each not in courses]

    @property
    def _left(self) -> int | None:
        """The number of trials that are left of the phases; None: it is not known."""
        listed = {key for each in self._courses if not each.source for key in each.left}
        suggested = [each.source.to_run for each in self._courses if each.source]
        return known_sum([len(listed), *suggested])

    # A source of trials

    def lines(self) -> Sequence[Line]:
        """A line for the trials of phases that began together, and one for each source."""
        self._go_on()
        deciding = [course for course in self._courses if course.source]
        return [*(listed for listed, _ in self._lists), *deciding]

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """Whether the trial is to end now, because one of the sources says so."""
        sources = [each.source for each in self._courses if each.source]
        stops = [source.progressed(key, report) for source in sources]  # all of them hear of it
        return any(stops)

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """The trial has ended. A source hears of those that it has given."""
        for _, left in self._lists:
            left.discard(key)
        self._lists = [each for each in self._lists if each[1]]
        for course in self._courses:
            if course.source and key in course.left:
                course.source.ended(key, report)
            course.left.discard(key)

    @property
    def exhausted(self) -> bool:
        """Whether all courses have come to their ends."""
        return not self._courses and not self._lists
