"""The scores of a store by the names that options and addresses of cells have for them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.errors import suggest
from harness.evaluation.catalogue import DISPLAY
from harness.report.measured.groups import Cell, Group

_DEV = ("dev", "dev-before")


@dataclass(frozen=True)
class NamedMetric:
    """A score."""

    metric: str
    """Its name in the records; also `dev`, what selected, and `dev-before`, before training"""
    part: Group | None = None
    """Trials that its suite measured; None: a dev score"""

    @property
    def heading(self) -> str:
        """What a table calls it."""
        if self.part is None:
            return self.metric.replace("-before", " before")
        return self.part.card.headings.get(self.metric) or DISPLAY.get(self.metric, self.metric)

    @property
    def is_average(self) -> bool:
        """Whether it is the mean over the tests of its suite."""
        return self.part is not None and self.metric == self.part.card.average

    def cell(self, group: Group) -> Cell | None:
        """The score of a group, as its suite measured it."""
        if self.part is not None:
            measured = group.measured(str(self.part.suite))
            return measured.test.get(self.metric) if measured else None
        if self.metric == "dev-before":
            return group.dev_before
        return group.dev.get(group.selects if self.metric == "dev" else self.metric)


def named_metrics(groups: Sequence[Group]) -> dict[str, NamedMetric]:
    """Name -> score, of all that groups have; where two suites share a metric, `SUITE:METRIC`."""
    suites = _suites(groups)
    found = {name: NamedMetric(name) for name in _DEV}
    found |= {name: NamedMetric(name) for group in groups for name in group.dev}
    for metric, parts in suites.items():
        for suite, part in parts.items():
            name = metric if len(parts) == 1 else f"{suite}:{metric}"
            found.setdefault(name, NamedMetric(metric, part))
    return found


def meant(name: str, known: Collection[str]) -> str:
    """The end of a message about a name that is not among the `known` ones: what may be meant."""
    several = sorted(each for each in known if each.endswith(f":{name}")) if name else []
    return f"; several suites have it: {', '.join(several)}" if several else suggest(name, known)


def shared_metrics(groups: Sequence[Group]) -> set[str]:
    """The metrics that more than one suite has measured."""
    return {metric for metric, parts in _suites(groups).items() if len(parts) > 1}


def _suites(groups: Sequence[Group]) -> dict[str, dict[str, Group]]:
    """Metric -> suite -> trials that it measured."""
    found: dict[str, dict[str, Group]] = defaultdict(dict)
    for part in (part for group in groups for part in group.parts):
        for metric in (*part.tasks, *part.test):
            found[metric].setdefault(str(part.suite), part)
    return found
