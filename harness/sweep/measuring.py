"""Measures models of a store with further suites, each model on a worker of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.sweep.received_files import receive
from harness.trials.evaluate import Measurement, evaluations
from harness.trials.lookup import MeasuredModel
from harness.trials.record import Record
from harness.trials.remote_store import store_at
from harness.trials.trained_encoder import provide
from harness.trials.trial import Trial, commit

if TYPE_CHECKING:
    from harness.sweep.ray_engine import Engine


@dataclass(frozen=True)
class Asked:
    """A model, and the suites that are to measure it."""

    model: MeasuredModel
    suites: Mapping[str, bool]
    """The name of a suite -> whether its tests are wanted, and not its dev score alone"""


def measured(
    asked: Sequence[Asked], engine: "Engine"
) -> Iterator[tuple[Asked, list[Record] | str]]:
    """Each model with the record of each suite, or with the reason why it could not be measured.

    They come as they end. The records are not in the store yet.
    """
    settings = [
        {**engine.sent(each.model.trial), "name": each.model.name, "record": each.model.record,
         "suites": dict(each.suites)}
        for each in asked
    ]  # fmt: skip
    for number, found in engine.each(_on_worker, settings):
        if not isinstance(found, str):
            # A cluster's worker has the source of the harness without the history.
            found = [replace(record, commit=commit()) for record in found]
        yield asked[number], found


def _on_worker(settings: Mapping[str, Any], store: str, cpus: float) -> list[Record] | str:
    """The records of a model, or the reason why it cannot be measured."""
    torch.set_num_threads(max(1, int(cpus)))
    try:
        if settings["files"]:
            receive(**settings["files"])
        found, trial = store_at(store), Trial(**settings["trial"])
        provide(found, trial.config.encoder)
        model = MeasuredModel(settings["name"], trial, settings["record"])
        wanted = [(suite(name), tests) for name, tests in settings["suites"].items()]
        suites = [each if tests else each.dev_alone for each, tests in wanted]
        return list(evaluations(Measurement(model, found), suites))
    except UserError as error:
        return str(error)
