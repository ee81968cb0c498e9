"""Groups of comparable trials, and their means over seeds and label subsets."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from harness import PROTOCOL
from harness.evaluation.catalogue import CARDS, STSB_DEV, Metric, SuiteCard, card
from harness.evaluation.scores import Uncertainty
from harness.report.measured_trials import (
    IDENTITY_COLUMNS,
    Draw,
    Identity,
    MeasuredTrial,
    SuiteOfData,
    SuiteScores,
    trials_of,
)


def design(draws: Sequence[Draw]) -> str:
    """The number of trials as text.

    It is `5x3` for three seeds on each of five label subsets, and a plain number for any other
    design.
    """
    subsets, seeds = ({draw[axis] for draw in draws} for axis in (0, 1))
    full = len(subsets) > 1 and len(set(draws)) == len(draws) == len(subsets) * len(seeds)
    return f"{len(subsets)}x{len(seeds)}" if full else str(len(draws))


NO_SEED = "–"
"""In the place of n: nothing is trained, so there is no seed"""


@dataclass(frozen=True)
class Score:
    """The score of n comparable trials."""

    mean: float
    std: float | None
    """The sample standard deviation (ddof 1); None for one trial"""
    n: int
    uncertainty: Uncertainty | None = None
    """The uncertainty of the score of a single trial, where it was computed"""
    trials: tuple[MeasuredTrial, ...] = field(default=(), repr=False)
    """The trials"""
    values: tuple[float, ...] = field(default=(), repr=False)
    """The score of each of them"""
    suite: SuiteOfData | None = None
    """The suite of a test score; None: it is a dev score or a quantity"""

    @property
    def trained(self) -> bool:
        """Whether anything was trained, so that another seed gives another score."""
        return not self.trials or self.trials[0].trained

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the trials, sorted."""
        return tuple(trial.key for trial in self.trials)


@dataclass(frozen=True)
class Group:
    """Comparable trials, which differ in nothing but the seed and the label subset."""

    identity: Identity
    trials: tuple[MeasuredTrial, ...]
    selects: str
    """The dev metric that selected the trials"""
    suite: str | None = None
    """The suite whose scores are in `test`; None: all suites that measured every trial"""
    data: str = ""
    """The digest of the data of the suite"""

    @property
    def method(self) -> str:
        """The name of the plugin."""
        return str(self.identity[0])

    @property
    def setting(self) -> str:
        """unsup, semisup or sup."""
        return str(self.identity[1])

    @property
    def encoder(self) -> str:
        """The name of the pretrained model."""
        return str(self.identity[2])

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """Every hyperparameter with its value."""
        return json.loads(self.identity[3] or "null") or {}

    @property
    def label_fraction(self) -> float | None:
        """The share of the labels that was used; None where there are none."""
        share = self.configuration.get("label_fraction")
        return None if share == 1 and self.setting == "unsup" else share

    @property
    def provenance(self) -> dict[str, Any]:
        """The digests and the protocol number."""
        return dict(zip(IDENTITY_COLUMNS[4:], self.identity[4:], strict=True))

    @property
    def current(self) -> bool:
        """Whether the trials were measured by today's protocol; others are not compared."""
        return self.provenance["protocol"] in (None, PROTOCOL)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the trials, sorted."""
        return tuple(trial.key for trial in self.trials)

    @property
    def draws(self) -> tuple[Draw, ...]:
        """The label subset and the seed of each trial."""
        return tuple(trial.draw for trial in self.trials)

    @property
    def n(self) -> str:
        """The number of trials as text, or `5x3` for subsets x seeds.

        `–` means that nothing was trained, so that there is no seed to vary.
        """
        constant = len(self.trials) == 1 and not self.trials[0].trained
        return NO_SEED if constant else design(self.draws)

    @property
    def subsets(self) -> int:
        """The number of label subsets."""
        return len({subset for subset, _ in self.draws})

    @cached_property
    def parts(self) -> list["Group"]:
        """For each suite, the group of the trials that it measured, with an n of its own.

        Suites of one name with other data are two. The suite in the trials' own rows comes first.
        """
        own = {trial.own for trial in self.trials}
        trials: dict[SuiteOfData, list[MeasuredTrial]] = defaultdict(list)
        for trial in self.trials:
            for suite in trial.suites:
                trials[suite].append(trial)
        suites = sorted(trials, key=lambda suite: (suite not in own, *suite))
        return [
            replace(self, trials=tuple(trials[name, data]), suite=name, data=data)
            for name, data in suites
        ]

    def measured(self, suite: str) -> "Group | None":
        """The part of this suite, or None when the suite measured no trial."""
        return next((part for part in self.parts if part.suite == suite), None)

    def score(self, metric: Metric) -> Score | None:
        """The score of the trials that the suite of the metric measured; None: not all have it."""
        part = self.measured(metric.suite)
        if part is None:
            return None
        return (part.test if metric.split == "test" else part.dev).get(metric.name)

    def model(self, trial: MeasuredTrial) -> list[str]:
        """The words by which `harness eval` takes a trial, or a model that never was one."""
        if trial.own is None and self.method == "pooling":
            return [self.encoder, "--pooling", str(self.configuration.get("pooling"))]
        alone = trial.own is None and self.method == "sentence_transformer"
        return [self.encoder if alone else trial.key[:10]]

    def best_trial(self, trials: Iterable[MeasuredTrial]) -> MeasuredTrial | None:
        """The trial with the best dev score of some; of equal ones, the one with the first key."""
        lowest = -math.inf
        return max(
            trials,
            key=lambda trial: lowest if (own := self.chosen_by(trial)) is None else own,
            default=None,
        )

    @property
    def _measured_by(self) -> SuiteOfData | None:
        return (self.suite, self.data) if self.suite else None

    def scores(self, trial: MeasuredTrial) -> SuiteScores:
        """The scores of a trial under the suite."""
        return trial.suites[str(self.suite), self.data]

    @property
    def card(self) -> SuiteCard:
        """The card of the suite."""
        return self.scores(self.trials[0]).card

    @property
    def own(self) -> bool:
        """Whether the suite is the one in the trials' own rows."""
        return any(trial.own == (self.suite, self.data) for trial in self.trials)

    @cached_property
    def dev(self) -> Mapping[str, Score]:
        """Dev metric -> its cell, for the metrics that every trial has.

        Of a metric that several suites have, it is the suite's own, or else that which selected.
        """
        return self._dev_cells([trial.dev(self._measured_by) for trial in self.trials])

    @cached_property
    def selected(self) -> Score | None:
        """The dev score that selected, where every trial has it."""
        return self._dev_cells([self._selecting(trial) for trial in self.trials]).get(self.selects)

    def chosen_by(self, trial: MeasuredTrial) -> float | None:
        """The dev score that selected a trial; None: it has none."""
        scores = self._selecting(trial).get(self.selects)
        return scores.dev[self.selects] if scores else None

    def _selecting(self, trial: MeasuredTrial) -> dict[str, SuiteScores]:
        return trial.dev(trial.own or self._measured_by)

    def _dev_cells(self, devs: Sequence[Mapping[str, SuiteScores]]) -> dict[str, Score]:
        """Dev metric -> its cell. devs: of each trial, the scores in which a metric is."""
        scores = [{name: own.dev[name] for name, own in dev.items()} for dev in devs]
        spreads = devs[0].items() if len(devs) == 1 else ()
        alone = {name: own.uncertainty[name] for name, own in spreads if name in own.uncertainty}
        return _cells(scores, self.trials, alone)

    @cached_property
    def dev_before(self) -> Score | None:
        """The dev score before training, where every trial has it."""
        scores = [trial.dev_before for trial in self.trials]
        values = [score for score in scores if score is not None]
        return cell_of(values, self.trials) if len(values) == len(scores) else None

    @cached_property
    def test(self) -> Mapping[str, Score]:
        """Test metric -> its cell, for the metrics that every trial has.

        All cells of a row are therefore over the same n trials.
        """
        if self.suite is None:
            # In reverse order, so that of a metric with one name the trials' own suite stands.
            whole = [part for part in reversed(self.parts) if len(part.trials) == len(self.trials)]
            return {name: cell for part in whole for name, cell in part.test.items()}
        measured = [self.scores(trial) for trial in self.trials]
        cells = _cells(
            [scores.test for scores in measured],
            self.trials,
            measured[0].uncertainty if len(measured) == 1 else {},
            (self.suite, self.data),
        )
        average = self.card.average
        if average and not set(self.tasks) <= set(cells):
            cells.pop(average, None)  # a mean over fewer tasks is another quantity
        return cells

    @property
    def tasks(self) -> tuple[str, ...]:
        """The metrics of the suite without their average, also those that some trial lacks."""
        names = {name for trial in self.trials for name in self.scores(trial).test}
        return self.card.tasks(names)

    @property
    def dev_mean(self) -> float:
        """The mean dev score, by which one group is chosen among several.

        It is over the trials that have the score, and -inf where no trial has it.
        """
        own = map(self.chosen_by, self.trials)
        scores = [score for score in own if score is not None]
        mean = math.fsum(scores) / len(scores) if scores else math.nan
        return -math.inf if math.isnan(mean) else mean


def former_protocols(groups: Iterable[Group]) -> str:
    """The protocols of the groups that were not measured by today's, as text; "" for none."""
    return ", ".join(sorted({str(g.provenance["protocol"]) for g in groups if not g.current}))


def comparable_groups(table: pa.Table) -> list[Group]:
    """The groups of a store: of its final trials, and of the models that were evaluated."""
    if not table.num_rows:
        return []
    groups = [
        Group(identity, tuple(trials), _selects(trials, identity))
        for identity, trials in trials_of(table).items()
    ]
    return sorted(groups, key=lambda group: tuple(map(str, group.identity)))


def _selects(trials: Sequence[MeasuredTrial], identity: Identity) -> str:
    """The metric of the trials' own rows, or else the one by which their suite selects."""
    named = [trial.selects for trial in trials if trial.selects]
    if named:
        return named[0]
    configuration = json.loads(identity[IDENTITY_COLUMNS.index("configuration")] or "{}")
    suite = configuration.get("suite", "sts")
    if suite in CARDS:
        return card(suite).dev or STSB_DEV
    measured = sorted(name for trial in trials for name in trial.dev(None))
    return STSB_DEV if STSB_DEV in measured else next(iter(measured), STSB_DEV)


def _cells(
    scores: Sequence[Mapping[str, float]],
    trials: tuple[MeasuredTrial, ...],
    spread: Mapping[str, Uncertainty],
    suite: SuiteOfData | None = None,
) -> dict[str, Score]:
    names = set.intersection(*(set(own) for own in scores))
    return {
        name: cell_of([own[name] for own in scores], trials, spread.get(name), suite)
        for name in sorted(names)
    }


def cell_of(
    values: Sequence[float],
    trials: tuple[MeasuredTrial, ...],
    uncertainty: Uncertainty | None = None,
    suite: SuiteOfData | None = None,
) -> Score:
    """The cell of the values. With fsum it does not depend on the order of the trials."""
    n, mean = len(values), math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    std = math.sqrt(squares / (n - 1)) if n > 1 else None
    return Score(mean, std, n, uncertainty, trials, tuple(values), suite)
