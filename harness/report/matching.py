"""Which trials answer a reported number."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UserError
from harness.evaluation.catalogue import STSB_DEV
from harness.report.groups import Group
from harness.report.reported import ReportedRow, ReportedRun, Systems

ALL_LABELS: Mapping[str, Any] = {"label_fraction": 1}


def yaml_text(value: Any) -> str:
    """A hyperparameter as `--set` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Wanted:
    """The trials that would reproduce a reported number."""

    method: str
    setting: str
    encoder: str
    configuration: tuple[tuple[str, Any], ...]
    """Hyperparameters that the trials must have; the others are free."""
    defaults: tuple[tuple[str, Any], ...] = ()
    """Of the method, which the trials must not have changed"""

    def __str__(self) -> str:
        told = [f"{name}={yaml_text(value)}" for name, value in self.configuration]
        return " ".join([self.method, self.setting, self.encoder, *told])


@dataclass(frozen=True)
class Found:
    """The comparable trials chosen for a reported number, and how many groups there were to choose from."""

    group: Group
    candidates: int


def wanted_for(row: ReportedRow, run: ReportedRun | None, fraction: float = 1) -> Wanted | None:
    """What to run for a number of a row, with this share of the labels; None when it is only quoted.

    Without any labels it is the unsupervised method. Raises UserError for an unlisted variant or encoder.
    """
    if run is None:
        return None
    configuration = _configuration(run, row)
    encoder, setting = run.encoder or str(row.encoder), run.setting or str(row.setting)
    if not fraction:
        configuration, setting = run.configuration, "unsup"
    elif fraction < 1:
        configuration = configuration | {"label_fraction": fraction}
    settled = tuple({**ALL_LABELS, **run.defaults}.items())
    return Wanted(run.method, setting, encoder, tuple(sorted(configuration.items())), settled)


def _configuration(run: ReportedRun, row: ReportedRow) -> dict[str, Any]:
    if row.variant is not None and row.variant not in run.variants:
        raise UserError(
            f'results/reported/systems.yaml: {row.system} does not list the variant "{row.variant}"'
        )
    values = run.configuration | (run.variants[row.variant] if row.variant is not None else {})
    for name, value in values.items():
        if isinstance(value, Mapping) and row.encoder not in value:
            raise UserError(
                f"results/reported/systems.yaml: {row.system} has no {name} for {row.encoder}"
            )
    return {
        name: value[row.encoder] if isinstance(value, Mapping) else value
        for name, value in values.items()
    }


def run_of(systems: Systems, table: str, row: ReportedRow, column: str) -> ReportedRun | None:
    """The run behind a row, or behind one cell in a table whose columns are different runs."""
    if table in systems.column_runs:
        return systems.column_runs[table].columns[column]
    if row.system not in systems.systems:
        raise UserError(
            f'results/reported/systems.yaml: the system "{row.system}" of {table} is not there'
        )
    return systems.systems[row.system]


class Finder:
    """The groups of a store, to be asked for the one that answers a reported number."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._groups: Mapping[tuple[str, str, str], list[Group]] = defaultdict(list)
        for group in groups:
            self._groups[group.method, group.setting, group.encoder].append(group)

    def find(self, target: Wanted) -> Found | None:
        """The group with the best dev mean: dev decides, never a test score. STS-B dev, by which the papers select,
        goes before any other dev score, which cannot be compared with it. More trials break a tie."""
        alike = self._groups.get((target.method, target.setting, target.encoder), [])
        fitting = [group for group in alike if _fits(group, target)]
        if not fitting:
            return None
        best = max(
            fitting, key=lambda group: (group.selects == STSB_DEV, group.dev_mean, len(group.keys))
        )
        return Found(best, len(fitting))


def _fits(group: Group, target: Wanted) -> bool:
    """Defaults hold where nothing else is said."""
    has, needs = (
        {**dict(target.defaults), **values}
        for values in (group.configuration, dict(target.configuration))
    )
    return all(name in has and has[name] == value for name, value in needs.items())
