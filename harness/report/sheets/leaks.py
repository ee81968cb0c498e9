"""Marks at scores of tests that stand in the training data, and the note under the table."""

from collections.abc import Iterable, Mapping

from harness.evaluation.catalogue import Metric
from harness.report.measured.groups import Cell
from harness.report.sheets.rows import LEAK, Leak, ScoreRow

MARKED = 0.01
"""The share of a test from which on its score is marked.

It lies between what NLI has of the STS tests (no pair, and up to 1.3 % of the sentences) and what
STS-B train has of those that STS-B was drawn from (17 to 50 % of the pairs)."""
NAMED_ROWS = 5
"""The number of rows that the note names"""


def leaks_of(cell: Cell | None, metric: Metric | None) -> tuple[Leak, ...]:
    """The leaks that a score is to be marked for; of an average, those of all its tests."""
    if cell is None or metric is None or metric.split == "dev" or not cell.trials:
        return ()
    # The trials of a cell differ in seed and label subset, and have the same corpora.
    scores = cell.trials[0].suites.get(metric.suite)
    if scores is None:
        return ()
    averaged = metric.name == scores.card.average
    found = scores.contamination
    tasks = dict.fromkeys(name.partition("/")[0] for name in found)
    leaks = [_leak(task, found) for task in tasks if averaged or task == metric.name]
    return tuple(leak for leak in leaks if leak.known >= MARKED * leak.whole > 0)


def _leak(task: str, found: Mapping[str, float]) -> Leak:
    pairs = int(found[f"{task}/pairs"])
    known, whole = ("pairs_together", "pairs") if pairs else ("normalised", "sentences")
    return Leak(task, int(found[f"{task}/{known}"]), int(found[f"{task}/{whole}"]))


def leak_notes(rows: Iterable[ScoreRow]) -> list[str]:
    """A note about the marked scores: which rows, and how much of which tests."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        known = dict.fromkeys(str(leak) for cell in row.cells for leak in cell.leaks)
        if known:
            lines.setdefault(", ".join(known), []).append(row.address)
    if not lines:
        return []
    shown = [f"row {', '.join(places)}: {known}" for known, places in lines.items()]
    more = [f"and {len(shown) - NAMED_ROWS} more"] if shown[NAMED_ROWS:] else []
    return [
        f"{LEAK} the training data have at least {100 * MARKED:g} % of the test: pairs of which "
        f"both sentences stand in one training item, or single sentences where a test has no "
        f"pairs; "
        f"{'; '.join([*shown[:NAMED_ROWS], *more])}"
    ]
