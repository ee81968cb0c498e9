"""Result files of mteb, made of what the store has of a model."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.revisions import without_revision
from harness.errors import UserError, check_extra
from harness.evaluation.catalogue import card
from harness.evaluation.scores import Origin
from harness.trials.lookup import KEY_PATTERN, model
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import key

if TYPE_CHECKING:
    from mteb.models import ModelMeta
    from mteb.results import TaskResult

ORGANISATION = "harness"
"""Prefix of the name of a model that is none of the Hub"""


def write_results(name: str, store: Store, folder: Path, method: str | None = None) -> list[Path]:
    """Write what mteb measured of a model as mteb's own files, and return their paths.

    name: the key of a trial or of an evaluation, or the model as `harness eval` takes it. The
    folder is one that `mteb.ResultCache(folder)` reads: `results/MODEL/KEY/TASK.json`, beside which
    is `model_meta.json`. Raises UserError when the store has no such scores.
    """
    check_extra("mteb", "mteb", "--mteb")
    records = _measured(name, store, method)
    from mteb import ResultCache

    meta, cache = _meta(records[0]), ResultCache(folder)
    paths = []
    for result in _results(records):
        cache.save_to_cache(result, meta)
        paths.append(cache.get_task_result_path(result.task_name, meta))
    return paths


def _measured(name: str, store: Store, method: str | None) -> list[Record]:
    """The records of a model that have scores of mteb."""
    wanted = _trial(name, store, method)
    table = store.read(("key", "role", "evaluates", "suite_card", "status")).table.to_pylist()
    keys = [
        row["key"]
        for row in table
        if wanted in (row["key"], row["evaluates"]) and '"origins"' in (row["suite_card"] or "")
    ]
    records = [record for each in keys if (record := store.get(each)) and record.details]
    if not any(card(str(each.suite), each.suite_card).origins for each in records):
        raise UserError(
            f"the store {store.place} has no scores of mteb for {name}; "
            f"`harness eval {name} --suite mteb:TASK` measures them"
        )
    return records


def _trial(name: str, store: Store, method: str | None) -> str:
    """The key of the trial that makes the model."""
    if KEY_PATTERN.fullmatch(name):
        keys = {record.evaluates or record.key for record in store.matching(name)}
        if len(keys) == 1:
            return keys.pop()
    return key(model(name, store, pooling=None, method=method).trial)


def _results(records: list[Record]) -> "Iterator[TaskResult]":
    """The results of each task, with all splits and subsets that some record has."""
    from mteb.results import TaskResult

    scores: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    measured: dict[str, tuple[Origin, Record]] = {}
    for record in records:
        for task, origin in card(str(record.suite), record.suite_card).origins.items():
            measured[task] = origin, record
            for split, subset, figures in _subsets(task, record.details):
                languages = list(origin.languages.get(subset, ()))
                known = {"hf_subset": subset, "languages": languages}
                scores[task][split][subset] = figures | known
    for task, splits in scores.items():
        origin, record = measured[task]
        yield TaskResult(
            task_name=task,
            dataset_revision=origin.revision,
            mteb_version=origin.version,
            scores={split: list(found.values()) for split, found in splits.items()},
            evaluation_time=record.wall_seconds,
            date=record.started,
        )


def _subsets(task: str, details: Mapping[str, float]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(split, subset, figures as mteb nests them) of a task, from the details of a record."""
    subsets: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for name, value in details.items():
        owner, _, place = name.partition("/")
        if owner == task:
            split, subset, *path = place.split("/")
            inside = subsets[split, subset.replace("%2F", "/")]
            for part in path[:-1]:
                inside = inside.setdefault(part, {})
            inside[path[-1]] = value
    for (split, subset), figures in subsets.items():
        yield split, subset, {figure: _nested(value) for figure, value in figures.items()}


def _nested(value: Any) -> Any:
    """The value with lists where its names are numbers."""
    if not isinstance(value, dict):
        return value
    inside = {name: _nested(part) for name, part in value.items()}
    return list(inside.values()) if all(name.isdecimal() for name in inside) else inside


def _meta(record: Record) -> "ModelMeta":
    """The model as mteb describes it: its revision is the key of the trial."""
    from mteb.models import ModelMeta
    from mteb.models.model_meta import ScoringFunction

    encoder = without_revision(record.encoder)
    own = record.method != "sentence_transformer" or encoder.count("/") != 1
    last = encoder.rstrip("/").rpartition("/")[2]
    return ModelMeta.create_empty(
        {
            "name": f"{ORGANISATION}/{record.method}-{last}" if own else encoder,
            "revision": record.evaluates or record.key,
            "n_parameters": record.parameters_total,
            "similarity_fn_name": ScoringFunction.COSINE,
            "framework": ["PyTorch"],
            "adapted_from": encoder if own else None,
        }
    )
