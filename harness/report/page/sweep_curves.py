"""The searches of a report's figures, with the histories of their best trials only."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow.compute as pc

from harness.report.figures.sweep_trials import SweepSearch
from harness.trials.store import Store

CURVES = 20
"""So many trials of a search have their curves in a report; histories are most of a store"""


def with_histories(searches: Iterable[SweepSearch], store: Store) -> list[SweepSearch]:
    """The searches, whose best trials have the histories that the store keeps of them."""
    found = list(searches)
    keys = [trial.record.key for search in found for trial in search.trials[:CURVES]]
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
        for search in found
    ]
