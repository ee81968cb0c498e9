"""What a published table still lacks: the trials that would fill its cells."""

from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.published.matching import Wanted


def lacking(table: ComparedTable, seeds: int, subsets: int) -> list[Wanted]:
    """The trials that would fill the gaps of a table, each once, in the order of its cells.

    A cell is filled by so many `seeds`, and by so many label `subsets` with each of them where it
    uses a share of the labels. Where a trial is there and only a suite has not measured it, nothing
    is lacking but `harness eval`. Cells that are only quoted are left out.
    """
    if table.table.kind == "hyperparameters":
        return []
    return list(
        dict.fromkeys(
            cell.wanted
            for cell in table.numbers
            if cell.wanted and not _filled(cell, seeds, subsets)
        )
    )


def _filled(cell: ComparedNumber, seeds: int, subsets: int) -> bool:
    """Whether the store has as many trials for a cell as are asked for."""
    if cell.found is None or cell.wanted is None or cell.foreign:
        return False
    trials = cell.found.group.trials
    if not trials[0].trained:
        return True
    share = dict(cell.wanted.configuration).get("label_fraction", 1) < 1
    return len(trials) >= seeds * (subsets if share else 1)
