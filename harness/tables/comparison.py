"""Each number of a published table beside ours."""

from dataclasses import dataclass

from harness.tables.aggregate import AVERAGE, Cell
from harness.tables.matching import Finder, Found, Wanted, cell_of, run_of, wanted
from harness.tables.reported import Row, Systems, Table
from harness.tables.sheet import DISPLAY

STORE_NAMES = {shown: name for name, shown in DISPLAY.items()}


@dataclass(frozen=True)
class Comparison:
    """One published number beside ours."""

    group: str
    row: Row
    column: str
    published: float | None
    published_std: float | None
    origin: str
    wanted: Wanted | None
    found: Found | None
    cell: Cell | None

    @property
    def delta(self) -> float | None:
        """Ours - published, where both are there."""
        return None if self.cell is None or self.published is None else self.cell.mean - self.published


def compare(table: Table, name: str, systems: Systems, finder: Finder) -> list[tuple[str, list[list[Comparison]]]]:
    """For each heading, for each row, one comparison a column. `name`: `<paper>.<table>`."""
    return [
        (
            group.name,
            [
                [_comparison(table, name, group.name, row, index, systems, finder) for index in range(len(row.values))]
                for row in group.rows
            ],
        )
        for group in table.groups
    ]


def _comparison(
    table: Table, name: str, heading: str, row: Row, index: int, systems: Systems, finder: Finder
) -> Comparison:
    column, value = str(table.columns[index]), row.values[index]
    target = _target(table, name, row, index, systems)
    found = finder.find(target) if target else None
    if name in systems.column_runs:
        cell = cell_of(found, "dev", systems.column_runs[name].metric)
    else:
        cell = cell_of(found, "test", AVERAGE if table.fractions else STORE_NAMES[column])
    return Comparison(
        group=heading,
        row=row,
        column=column,
        published=float(value) if value is not None else None,
        published_std=row.std[index] if row.std else None,
        origin=str(row.origins[index] if row.origins else row.origin),
        wanted=target,
        found=found,
        cell=cell,
    )


def _target(table: Table, name: str, row: Row, index: int, systems: Systems) -> Wanted | None:
    """Nothing where a method that needs labels would have none."""
    fraction = table.fractions[index] if table.fractions else 1
    if not fraction and row.values[index] is None:
        return None
    return wanted(row, run_of(systems, name, row, str(table.columns[index])), fraction)
