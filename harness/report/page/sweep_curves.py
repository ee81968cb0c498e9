"""The searches whose figures a report has, with the histories of their best trials."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from harness.report.figures.sweep_trials import SweepSearch
from harness.trials.store import Store

FIGURED = 10
"""So many searches have figures, those with the most trials: a page of hundreds helps nobody"""
WITH_CURVES = 20
"""So many trials of a search have their curves in a report; histories are most of a store"""


def figured(searches: Sequence[SweepSearch]) -> tuple[list[SweepSearch], list[str]]:
    """The searches with the most trials, in their order; and a note about the others."""
    largest = sorted(searches, key=lambda search: -len(search.trials))[:FIGURED]
    kept = [search for search in searches if search in largest]
    if len(kept) == len(searches):
        return kept, []
    note = (
        f"Figures are of the {len(kept)} searches with the most trials; "
        f"`harness figure --sweep {searches[0].id[:10]}` draws those of any search."
    )
    return kept, [note]


def with_histories(searches: Sequence[SweepSearch], store: Store) -> list[SweepSearch]:
    """The searches, whose best trials have the histories that the store keeps of them."""
    keys = [trial.record.key for search in searches for trial in search.trials[:WITH_CURVES]]
    rows = store.read(("history",), pc.field("key").isin(keys)).table.to_pylist() if keys else []
    histories = {row["key"]: row["history"] or [] for row in rows}
    return [
        replace(
            search,
            trials=tuple(
                replace(
                    each, record=replace(each.record, history=histories.get(each.record.key, []))
                )
                for each in search.trials
            ),
        )
        for search in searches
    ]
