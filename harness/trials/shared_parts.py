"""The parts that trials share: word pieces, contamination, label subsets, artefacts, a first stage.

A sweep makes each of them once, as a task of its own, before the trials that need it. A trial finds
what is there, and makes the rest itself.
"""

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from harness.arrays import SharedArrays
from harness.data.tokens import load_tokenizer
from harness.device import device
from harness.evaluation.overlap import shared_marks
from harness.evaluation.suites import suite
from harness.files import cache_folder, digest
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.training.shared_stages import StageStates
from harness.trials.run import Report, run_shared_stage
from harness.trials.trial import Trial


@dataclass(frozen=True)
class Part:
    """Something that several trials need, and that one process makes for all of them."""

    key: str
    """Equal for all trials that share the part"""
    title: str
    trial: Trial
    """One of them"""
    arrays: SharedArrays | None
    """The arrays to make; None: the first stage of the trial"""
    steps: int = 0
    """Length of the first stage; a trial with a shorter one finds its state on the way"""
    computes: bool = True
    """Whether a model computes, so that a GPU is of use"""

    def make(self, report: Report, asked: Collection[int]) -> None:
        """Make the part. A first stage is run, and its states after `asked` steps are kept."""
        if self.arrays is not None:
            self.arrays.read()
        else:
            run_shared_stage(self.trial, asked, report)


def missing_parts(trial: Trial) -> list[Part]:
    """The parts that a trial needs and that can be made now, side by side.

    Further ones may follow: a label subset is drawn when the word pieces are there, and a first
    stage is run last. Whether its states are there is known to the machine that runs it alone.
    Raises UserError for a model or a file that is missing.
    """
    declared = trial.declared
    if not declared.corpora:
        return []
    config = declared.config
    kit = Kit(declared, device(), _tokenizer(config.encoder, config.ends_sentences))
    first, *further = kit.shared()
    if trial.role == "final":  # its record says what its corpora have of the tests
        first = [*first, *shared_marks(declared.corpora.values(), suite(config.suite))]
    for computes, group in zip((False, False, True), (first, *further), strict=True):
        missing = [arrays for arrays in group if arrays.missing]
        if missing:
            return [
                Part(_key(arrays), arrays.title, trial, arrays, computes=computes)
                for arrays in missing
            ]
    return _first_stage(trial, kit)


def _key(arrays: SharedArrays) -> str:
    """The same on machines whose caches are in different folders."""
    return digest(str(arrays.folder.relative_to(cache_folder())))


def part_of(trial: Trial, key: str) -> Part | None:
    """The part of a trial with this key; None: it has been made in the meantime."""
    return next((part for part in missing_parts(trial) if part.key == key), None)


@functools.cache
def _tokenizer(encoder: str, ends: bool) -> Any:
    """The tokenizer of all trials of an encoder, since nothing changes it here."""
    return load_tokenizer(encoder, ends=ends)


def _first_stage(trial: Trial, kit: Kit) -> list[Part]:
    """The first stage of a trial, when trials share it, and one process alone can run it."""
    config, stage = kit.config, next(iter(kit.declared.stages), None)
    if stage is None or stage.shared is None:
        return []
    assert isinstance(config, TrainingConfig)
    if config.engine != "single":
        return []
    interval = kit.declared.evaluation_interval(stage)
    scored = suite(config.suite).digest()
    key = StageStates.identity(stage, kit, trial.seed, interval, scored)
    steps = kit.declared.steps_of(stage) or 0
    return [Part(key, f"the first stage of {trial.label}", trial, None, steps)]
