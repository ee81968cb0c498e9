"""The data of mteb's tasks, and what mteb measures on them with our vectors.

Data lie in a mirror, in a user's files, among the downloads, or on the Hub.
"""

import copy
import functools
import importlib
import logging
import random
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from harness.data.hub import not_found
from harness.data.hub_tables import is_hub_name, mirrored_data_set, plainly_named
from harness.data.revisions import COMMIT, hub_failure
from harness.errors import NotHere, UserError, extra, suggest
from harness.files import digest_of
from harness.inputs import is_file, is_folder
from harness.relocation import here

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.results import TaskResult

hub_failure_once = functools.cache(hub_failure)  # a benchmark has dozens of tasks
Vectors = Callable[[list[str]], np.ndarray]
"""Sentences -> their vectors, (sentences, hidden)"""


def mteb_package(name: str) -> ModuleType:
    """The package mteb, for the suite called `name`. Raises UserError where it is not installed."""
    with undisturbed(), extra("mteb", f'suite "{name}"'):
        found = importlib.import_module("mteb")
    logging.getLogger("mteb").setLevel(logging.ERROR)
    return found


@contextmanager
def undisturbed() -> Iterator[None]:
    """In the block, mteb may seed the random sources; afterwards they are as they were.

    Its tasks and evaluators do so. Without this, a training would go on with the same random
    numbers after every dev score.
    """
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def evaluated(task: "AbsTask", vectors: Vectors) -> "TaskResult":
    """Measurement of mteb on a task whose data are loaded, equal each time it is called."""
    mteb = importlib.import_module("mteb")
    fresh = copy.copy(task)
    fresh.rng_state, fresh.np_rng = copy.deepcopy((task.rng_state, task.np_rng))
    with undisturbed():
        result = mteb.evaluate(
            Model(vectors), fresh, cache=None, co2_tracker=False, show_progress_bar=False
        )
    return result.task_results[0]


class Model:
    """Our vectors as a model of mteb (its EncoderProtocol), compared by their cosines."""

    def __init__(self, vectors: Vectors) -> None:
        """A model that gives these vectors, without instructions or prompts of mteb."""
        from mteb.models import ModelMeta

        self.vectors = vectors
        self.mteb_model_meta = ModelMeta.create_empty()

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_: Any) -> np.ndarray:
        """The vectors of all texts in the batches, (texts, hidden)."""
        return self.vectors([text for batch in inputs for text in batch["text"]])

    def similarity(self, first: np.ndarray, second: np.ndarray) -> torch.Tensor:
        """The cosines of each vector with each, (len(first), len(second))."""
        from mteb.similarity_functions import cos_sim

        found: torch.Tensor = cos_sim(first, second)
        return found

    def similarity_pairwise(self, first: np.ndarray, second: np.ndarray) -> torch.Tensor:
        """The cosines of pairs of vectors, (pairs,)."""
        from mteb.similarity_functions import pairwise_cos_sim

        found: torch.Tensor = pairwise_cos_sim(first, second)
        return found


_PLAIN = re.compile(r"[\w./ +=@,-]+")
"""A path without signs that the library `datasets` reads as a pattern or as an address"""


def loaded(task: "AbsTask", splits: Sequence[str] | None = None) -> "AbsTask":
    """The task with its data, of which it evaluates `splits`, or those that mteb says.

    A mirror goes before the downloads of the Hub, and these before the Hub itself. No code of a
    data set is run. Raises NotHere when the data are in none of them, and UserError when they lack
    a split.
    """
    task = copy.copy(task)
    if splits is not None:
        task.filter_eval_splits(list(splits))
    if task.is_aggregate:
        parts = [loaded(part, splits) for part in task.metadata.tasks]
        task.metadata = task.metadata.model_copy(update={"tasks": parts})
        return task
    source = _located(task)
    folder = Path(source["path"])
    # A plain path stays as it is, because by it the library finds what it has read before.
    signs = is_folder(folder) and not _PLAIN.fullmatch(str(folder))
    with undisturbed(), plainly_named(folder) if signs else nullcontext(folder) as place:
        _set_source(task, source | {"path": str(place)})
        task.load_data()
    _set_source(task, source)
    present = _splits(task.dataset or {})
    for split in task.eval_splits:
        if split not in present:
            raise UserError(
                f'task {task.metadata.name} has no split "{split}"{suggest(split, present)}'
            )
    return task


def _set_source(task: "AbsTask", source: Mapping[str, Any]) -> None:
    task.metadata = task.metadata.model_copy(update={"dataset": dict(source)})


def files_of(tasks: Iterable["AbsTask"]) -> list[Path]:
    """The files of the mirror or of a user that hold the data of tasks, sorted."""
    files = set[Path]()
    for task in each_alone(tasks):
        repository = task.metadata.dataset["path"]
        folder = _local(repository)
        if folder is None:
            continue
        inside = folder.rglob("*") if is_folder(folder) else [folder]
        files |= {path.resolve() for path in inside if is_file(path)}
    return sorted(files)


def commits_of(tasks: Iterable["AbsTask"]) -> dict[str, str]:
    """`datasets/ORGANISATION/NAME` -> the commit of the Hub that tasks read; of several, all.

    Data of a mirror or of a user have none, and neither have data that were not downloaded.
    """
    commits = defaultdict[str, set[str]](set)
    for task in each_alone(tasks):
        repository = task.metadata.dataset["path"]
        if is_hub_name(repository) and _local(repository) is None:
            commit = _downloaded(repository, task.metadata.dataset["revision"])
            if commit is not None and COMMIT.fullmatch(commit):
                commits[f"datasets/{repository}"].add(commit)
    return {name: ", ".join(sorted(commits[name])) for name in sorted(commits)}


def each_alone(tasks: Iterable["AbsTask"]) -> Iterator["AbsTask"]:
    """The tasks, and the parts of each aggregate in its place."""
    for task in tasks:
        if task.is_aggregate:
            yield from each_alone(task.metadata.tasks)
        else:
            yield task


def content(data: Any) -> str:
    """The digest of loaded data: rows, and mappings of them."""
    from datasets import Dataset

    if isinstance(data, Mapping):
        return digest_of([(str(name), content(part)) for name, part in data.items()])
    if isinstance(data, Dataset):
        return digest_of([digest_of(rows) for rows in data.iter(batch_size=1000)])
    return digest_of(data)


def _local(repository: str) -> Path | None:
    """The data of a mirror or of a user; None: there are none."""
    own = here(Path(repository))
    return mirrored_data_set(repository) or (own if own.exists() else None)


def _located(task: "AbsTask") -> dict[str, Any]:
    """Arguments of `load_dataset`. Raises NotHere when the data are not at hand."""
    source: dict[str, Any] = dict(task.metadata.dataset)
    source.pop("trust_remote_code", None)
    repository = source["path"]
    if local := _local(repository):
        return source | {"path": str(local)}
    if is_hub_name(repository):
        why = _downloaded(repository, source["revision"]) is None and hub_failure_once()
        if why:
            nowhere = not_found(f"datasets/{repository}", f"the Hub did not answer ({why})")
            raise NotHere(f"the data of task {task.metadata.name} ({repository}) were {nowhere}")
    return source


def _downloaded(repository: str, revision: str) -> str | None:
    """The commit of the Hub's snapshot that was downloaded; None: there is none."""
    try:
        return Path(
            snapshot_download(
                repository, repo_type="dataset", revision=revision, local_files_only=True
            )
        ).name
    except LocalEntryNotFoundError:
        return None


def _splits(dataset: Mapping[str, Any]) -> set[str]:
    """The splits of the data, which stand below subsets in some tasks."""
    from datasets import Dataset

    below = [part for part in dataset.values() if not isinstance(part, Dataset)]
    return {split for part in below for split in part} or set(dataset)
