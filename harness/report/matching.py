"""Finds the trials of a store that can stand beside a reported number."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UserError
from harness.report.groups import Group, best_on_dev
from harness.report.reported import ReportedRow, ReportedRun, Systems

ALL_LABELS: Mapping[str, Any] = {"label_fraction": 1}


def yaml_text(value: Any) -> str:
    """The value of a hyperparameter as `--set` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Wanted:
    """The trials that would reproduce a reported number."""

    method: str
    setting: str
    encoder: str
    configuration: tuple[tuple[str, Any], ...]
    """Hyperparameters with the values that the trials must have; the others are free"""
    defaults: tuple[tuple[str, Any], ...] = ()
    """Hyperparameters with the defaults that the trials must not have changed"""

    def __str__(self) -> str:
        values = [f"{name}={yaml_text(value)}" for name, value in self.configuration]
        return " ".join([self.method, self.setting, self.encoder, *values])


@dataclass(frozen=True)
class Found:
    """The group that is chosen for a reported number, and how many groups were candidates."""

    group: Group
    candidates: int


def wanted_for(row: ReportedRow, run: ReportedRun | None, fraction: float = 1) -> Wanted | None:
    """The trials that would reproduce a number of a row; None when the number is only quoted.

    `fraction`: the share of the labels; at 0 it is the unsupervised method. Raises UserError for a
    variant or an encoder that the run does not list.
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
    """The run of a row, or of one cell in a table whose columns are different runs.

    None when the number is only quoted. Raises UserError for a system that is not listed.
    """
    if table in systems.column_runs:
        return systems.column_runs[table].columns[column]
    if row.system not in systems.systems:
        raise UserError(
            f'results/reported/systems.yaml does not list the system "{row.system}" of {table}'
        )
    return systems.systems[row.system]


class Finder:
    """The groups of a store, among which it finds the one for a reported number."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._groups: Mapping[tuple[str, str, str], list[Group]] = defaultdict(list)
        for group in groups:
            self._groups[group.method, group.setting, group.encoder].append(group)

    def find(self, target: Wanted) -> Found | None:
        """The fitting group with the best mean dev score; None where no group fits."""
        alike = self._groups.get((target.method, target.setting, target.encoder), [])
        fitting = [group for group in alike if _fits(group, target)]
        if not fitting:
            return None
        return Found(best_on_dev(fitting), len(fitting))


def _fits(group: Group, target: Wanted) -> bool:
    """Whether the group has the values that are wanted, or the defaults where none is wanted."""
    has, needs = (
        {**dict(target.defaults), **values}
        for values in (group.configuration, dict(target.configuration))
    )
    return all(name in has and has[name] == value for name, value in needs.items())
