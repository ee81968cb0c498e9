"""Measures models of a store with further suites, each model on a worker of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.sweeps.pool import Pool
from harness.trials.lookup import MeasuredModel
from harness.trials.record import Record
from harness.trials.trial import commit, key


@dataclass(frozen=True)
class Asked:
    """A model, and the suites that are to measure it."""

    model: MeasuredModel
    suites: Mapping[str, bool]
    """The name of a suite -> whether its tests are wanted, and not its dev score alone"""


def measured(asked: Sequence[Asked], pool: Pool) -> Iterator[tuple[Asked, list[Record] | str]]:
    """Each model with the record of each suite, or with the reason why it could not be measured.

    They come as they end. The records are not in the store yet. A model has the limits of a trial.
    """
    # Ray reads its environment when it is first imported, which is what the pool has done.
    from harness.sweeps.workers.suite_worker import measure_model

    limits = {"sweep": pool.sweep, "limits": pool.limits}
    settings = [
        {**pool.sent(each.model.trial), **limits, "key": key(each.model.trial),
         "name": each.model.name, "record": each.model.record, "suites": dict(each.suites)}
        for each in asked
    ]  # fmt: skip
    for number, found in pool.each(measure_model, settings):
        if not isinstance(found, str):
            # A cluster's worker has the source of the harness without the history.
            found = [replace(record, commit=commit()) for record in found]
        yield asked[number], found
