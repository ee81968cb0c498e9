"""What a published table still lacks: the trials that would fill its cells."""

from harness.report.comparison import ComparedNumber, compare_table
from harness.report.groups import comparable_groups
from harness.report.matching import Finder, Wanted
from harness.report.reported import Paper, load_systems
from harness.trials.reading import Reading


def lacking(reading: Reading, paper: Paper, table: str, seeds: int, subsets: int) -> list[Wanted]:
    """The trials that would fill the gaps of a table, each once, in the order of its cells.

    A cell is filled by so many `seeds`, and by so many label `subsets` with each of them where it
    uses a share of the labels. Where a trial is there and only a suite has not measured it, nothing
    is lacking but `harness eval`. Cells that are only quoted are left out.
    """
    systems, finder = load_systems(), Finder(comparable_groups(reading.table))
    name = f"{paper.paper}.{table}"
    cells = [
        cell
        for _, rows in compare_table(paper.tables[table], name, systems, finder)
        for row in rows
        for cell in row
    ]
    return list(
        dict.fromkeys(
            cell.wanted for cell in cells if cell.wanted and not _filled(cell, seeds, subsets)
        )
    )


def _filled(cell: ComparedNumber, seeds: int, subsets: int) -> bool:
    """Whether the store has as many trials for a cell as are asked for."""
    if cell.found is None or cell.wanted is None:
        return False
    trials = cell.found.group.trials
    if not trials[0].trained:
        return True
    share = dict(cell.wanted.configuration).get("label_fraction", 1) < 1
    return len(trials) >= seeds * (subsets if share else 1)
