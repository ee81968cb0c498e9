"""Trials to cells: comparable trials are averaged over seeds and label subsets."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from harness.evaluation.catalogue import CARDS, STSB_DEV, SuiteCard, card
from harness.evaluation.scores import Uncertainty
from harness.report.measured_trials import IDENTITY_COLUMNS, Identity, MeasuredTrial, trials_of
from harness.report.variance import Components, Draw, design, squares, variance_components


@dataclass(frozen=True)
class Cell:
    """A score over n comparable trials."""

    mean: float
    std: float | None
    """The sample standard deviation (ddof 1); None for one trial"""
    n: int
    components: Components | None = None
    """The components of the variance, over several subsets of the labels"""
    uncertainty: Uncertainty | None = None
    """For one trial: the uncertainty of its own score, where it was computed"""


@dataclass(frozen=True)
class Group:
    """Comparable trials: they differ in nothing but the seed and the subset of the labels."""

    identity: Identity
    trials: tuple[MeasuredTrial, ...]
    selects: str
    """The dev metric that selected the trials"""
    suite: str | None = None
    """Only what this suite measured is in `test`; None: what all trials have"""

    @property
    def method(self) -> str:
        """Name of the plugin."""
        return str(self.identity[0])

    @property
    def setting(self) -> str:
        """unsup, semisup or sup."""
        return str(self.identity[1])

    @property
    def encoder(self) -> str:
        """Name of the pretrained model."""
        return str(self.identity[2])

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """Every hyperparameter."""
        return json.loads(self.identity[3] or "null") or {}

    @property
    def label_fraction(self) -> float | None:
        """The share of the labels that was used; None where the method has no such choice."""
        return self.configuration.get("label_fraction")

    @property
    def provenance(self) -> dict[str, Any]:
        """The digests and the protocol number."""
        return dict(zip(IDENTITY_COLUMNS[4:], self.identity[4:], strict=True))

    @property
    def keys(self) -> tuple[str, ...]:
        """Of the trials, sorted."""
        return tuple(trial.key for trial in self.trials)

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Subset and seed of each trial."""
        return tuple(trial.draw for trial in self.trials)

    @property
    def n(self) -> str:
        """Number of trials, or `5x3` for subsets x seeds.

        `1=` means that nothing was trained, so that there is no seed to vary.
        """
        return "1=" if len(self.trials) == 1 and not self.trials[0].trained else design(self.draws)

    @property
    def subsets(self) -> int:
        """On how many subsets of the labels."""
        return len({subset for subset, _ in self.draws})

    @property
    def parts(self) -> list["Group"]:
        """For each suite, the group of those trials that it measured, with their own n.

        The suite in the trials' own rows comes first.
        """
        own = {trial.own for trial in self.trials}
        names = {name for trial in self.trials for name in trial.suites}
        return [
            replace(
                self,
                trials=tuple(trial for trial in self.trials if name in trial.suites),
                suite=name,
            )
            for name in sorted(names, key=lambda name: (name not in own, name))
        ]

    def measured(self, suite: str) -> "Group | None":
        """The part of this suite, or None."""
        return next((part for part in self.parts if part.suite == suite), None)

    @property
    def card(self) -> SuiteCard:
        """The card of the suite."""
        assert self.suite is not None
        return self.trials[0].suites[self.suite].card

    @property
    def own(self) -> bool:
        """Whether the suite is the one in the trials' own rows."""
        return any(trial.own == self.suite for trial in self.trials)

    @cached_property
    def dev(self) -> Mapping[str, Cell]:
        """Dev metrics that every trial has."""
        alone = self.trials[0].uncertainty if len(self.trials) == 1 else {}
        return _cells([trial.dev for trial in self.trials], self.draws, alone)

    @cached_property
    def dev_before(self) -> Cell | None:
        """The dev score before training, where every trial has it."""
        scores = [trial.dev_before for trial in self.trials]
        known = [score for score in scores if score is not None]
        return _cell(known, self.draws, None) if len(known) == len(scores) else None

    @cached_property
    def test(self) -> Mapping[str, Cell]:
        """Test metrics that every trial has: all cells of a row are over the same n trials."""
        if self.suite is None:
            whole = [part for part in reversed(self.parts) if len(part.trials) == len(self.trials)]
            return {name: cell for part in whole for name, cell in part.test.items()}
        found = [trial.suites[self.suite] for trial in self.trials]
        cells = _cells(
            [scores.test for scores in found],
            self.draws,
            found[0].uncertainty if len(found) == 1 else {},
        )
        average = self.card.average
        if average and not set(self.tasks) <= set(cells):
            cells.pop(average, None)  # a mean over other tasks is another quantity
        return cells

    @property
    def tasks(self) -> tuple[str, ...]:
        """The suite's metrics without their average, also those that are missing here."""
        names = {name for trial in self.trials for name in trial.suites[str(self.suite)].test}
        return self.card.tasks(names)

    @property
    def dev_mean(self) -> float:
        """The mean dev score, by which one group is chosen among several; never a test score.

        It is over the trials that have the score, and -inf where none has it.
        """
        scores = [trial.dev[self.selects] for trial in self.trials if self.selects in trial.dev]
        mean = math.fsum(scores) / len(scores) if scores else math.nan
        return -math.inf if math.isnan(mean) else mean


def comparable_groups(table: pa.Table) -> list[Group]:
    """The final trials of a store and those that were evaluated, in groups of comparable ones."""
    found = [
        Group(identity, tuple(trials), _selects(trials, identity))
        for identity, trials in trials_of(table).items()
    ]
    return sorted(found, key=lambda group: tuple(map(str, group.identity)))


def _selects(trials: Sequence[MeasuredTrial], identity: Identity) -> str:
    """What the trials' own rows say, or else what the suite of their configuration selects by."""
    named = [trial.selects for trial in trials if trial.selects]
    if named:
        return named[0]
    configuration = json.loads(identity[IDENTITY_COLUMNS.index("configuration")] or "{}")
    suite = configuration.get("suite", "sts")
    if suite in CARDS:
        return card(suite).dev or STSB_DEV
    measured = sorted(name for trial in trials for name in trial.dev)
    return STSB_DEV if STSB_DEV in measured else next(iter(measured), STSB_DEV)


def _cells(
    trials: Sequence[Mapping[str, float]], draws: Sequence[Draw], spread: Mapping[str, Uncertainty]
) -> dict[str, Cell]:
    names = set.intersection(*(set(trial) for trial in trials))
    return {
        name: _cell([trial[name] for trial in trials], draws, spread.get(name))
        for name in sorted(names)
    }


def _cell(values: list[float], draws: Sequence[Draw], uncertainty: Uncertainty | None) -> Cell:
    """With fsum the result does not depend on the order of the trials in the store."""
    n = len(values)
    std = math.sqrt(squares(values) / (n - 1)) if n > 1 else None
    return Cell(math.fsum(values) / n, std, n, variance_components(values, draws), uncertainty)
