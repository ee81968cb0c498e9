"""Two rows of a store side by side: their difference in each metric, and its meaning in words."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.errors import counted
from harness.evaluation.bootstrap import RESAMPLES
from harness.evaluation.catalogue import CARDS, DISPLAY, NDCG, SuiteCard, suite_option
from harness.evaluation.kept import PAIRS, QUERIES, resampled_scores
from harness.report.cells import decimals_of, p_text
from harness.report.difference import (
    Difference,
    Scored,
    kept_as_stored,
    over_both,
    over_pairs,
    over_seeds,
)
from harness.report.groups import Group
from harness.report.matching import command
from harness.report.significance import SIGNIFICANT


@dataclass(frozen=True)
class System:
    """A side of a comparison: a row of a table, a trial or a model, measured by one suite."""

    name: str
    card: SuiteCard
    scored: Mapping[str, Scored]
    """Test metric -> its scores, the average of the suite last"""
    lacking: tuple[tuple[str, ...], ...] = ()
    """The words by which `harness eval` takes each model whose test pairs are not kept"""


@dataclass(frozen=True)
class Compared:
    """Two systems in one metric."""

    first: System
    second: System
    metric: str

    @property
    def sides(self) -> tuple[Scored, Scored]:
        """The scores of the first system, and those of the second."""
        return self.first.scored[self.metric], self.second.scored[self.metric]

    @property
    def value(self) -> float:
        """The first score minus the second."""
        one, two = self.sides
        return one.mean - two.mean

    @property
    def defined(self) -> bool:
        """Whether both scores are numbers; a suite of one's own may give others."""
        return not math.isnan(self.value)

    @property
    def trained(self) -> bool:
        """Whether another seed may change the difference."""
        return any(side.trained for side in self.sides)

    @cached_property
    def seeds(self) -> Difference | None:
        """The difference over seeds; None where no spread is known."""
        return over_seeds(*self.sides)

    @cached_property
    def pairs(self) -> Difference | None:
        """The difference over test pairs; None where these are not known."""
        return over_pairs(*self.sides)

    @cached_property
    def both(self) -> Difference | None:
        """The difference over seeds and test pairs; None where one of them is not known."""
        return over_both(*self.sides)

    @property
    def headline(self) -> Difference | None:
        """The difference over all that is known of seeds and test pairs; None: it has no value."""
        return (self.both or self.pairs or self.seeds) if self.defined else None

    @property
    def decimals(self) -> int:
        """Digits after the point of the scores."""
        return decimals_of(self.first.card, (side.mean for side in self.sides))

    @property
    def items(self) -> str:
        """The items of the test: pairs or queries."""
        return self.sides[0].items

    def lines(self, store: Path | str) -> list[str]:
        """A line for each kind of uncertainty, which says what it is of.

        store: that of the systems, which a command names.
        """
        seeds, pairs, both = self.seeds, self.pairs, self.both
        if not self.defined:
            return []
        return [
            f"over seeds: {self._shown(seeds) if seeds else self._why_no_seeds()}",
            f"over test {self.items}: {self._shown(pairs) if pairs else self._why_no_pairs(store)}",
            *([f"over both: {self._shown(both)}"] if both else []),
        ]

    def verdict(self, *, settled: bool | None = None) -> str:
        """A sentence in plain words: which system is better, and what could change that.

        settled: whether the difference is significant among others; None: as it is alone.
        """
        if not self.defined:
            names = f"{self.first.name} and {self.second.name}"
            return f"{names} are not compared on {self.heading}: a score is no number."
        direction = self.first.card.directions.get(self.metric, 1)
        if not direction and self.value:
            names, by = f"{self.first.name} and {self.second.name}", self._amount(abs(self.value))
            return f"{names} differ by {by} on {self.heading}, where no value is better."
        upwards = direction > 0
        ahead = self.value >= 0 if upwards else self.value <= 0
        better, worse = (self.first.name, self.second.name)[:: 1 if ahead else -1]
        if not self.value:
            return f"{better} and {worse} have the same score on {self.heading}."
        unit = " points" if "x100" in self.first.card.unit.replace("not x100", "") else ""
        by = f"{'+' if upwards else '-'}{self._amount(abs(self.value))}{unit}"
        moved = self._moved()
        if not moved:
            return (
                f"{better} scores {by} against {worse} on {self.heading}; whether that is more "
                f"than chance is not known."
            )
        alone = self.headline is not None and self.headline.p_value <= SIGNIFICANT
        if alone if settled is None else settled:
            return f"{better} is better than {worse} on {self.heading}: {by}; {moved}."
        why = (
            "which is significant alone, and not among all comparisons (Holm);" if alone else "but"
        )
        return (
            f"{better} and {worse} cannot be told apart on {self.heading}: {by} for {better}, "
            f"{why} {moved}."
        )

    def _moved(self) -> str:
        """The amounts by which other seeds and other test sentences would move the difference."""
        items = "sentences" if self.items == PAIRS else self.items
        named = (("seeds", self.seeds), (f"test {items}", self.pairs))
        reaches = [(noun, over.reach) for noun, over in named if over]
        if not reaches:
            return ""
        parts = [f"{noun} by up to {self._amount(reach)}" for noun, reach in reaches]
        text = f"other {', other '.join(parts)} (95 %)".replace("by up", "would move it by up", 1)
        lacking = (noun for noun, over in named if over is None)
        unknown = [noun for noun in lacking if self.trained or noun != "seeds"]
        return f"{text}; what other {unknown[0]} would do is not known" if unknown else text

    def _amount(self, value: float) -> str:
        """An amount as people say it: with one digit less than in a table, unless that is 0."""
        places = max(1, self.decimals - 1)
        shown = f"{value:.{places}f}"
        return shown if float(shown) else f"{value:.{places + 1}f}"

    @property
    def heading(self) -> str:
        """The metric as a sentence names it."""
        headings = self.first.card.headings
        named = headings.get(self.metric) or DISPLAY.get(self.metric, self.metric)
        average = self.metric == self.first.card.average
        return f"the average of {self.first.card.name}" if average else named

    def _shown(self, over: Difference) -> str:
        places = f"+.{self.decimals}f"
        interval = f"95 % from {over.low:{places}} to {over.high:{places}}"
        return f"{over.value:{places}}, {interval}, p {p_text(over.p_value)} ({over.basis})"

    def _why_no_seeds(self) -> str:
        return (
            "not known: a trained system has one seed, and more seeds would show the spread"
            if self.trained
            else "none: nothing is trained, so another seed changes nothing"
        )

    def _why_no_pairs(self, store: Path | str) -> str:
        card = self.first.card
        # A table of scored pairs has this unit, too, and a folder with queries has this metric.
        if card.unit != CARDS["sts"].unit and NDCG not in card.headings:
            return f"not known: the suite {card.name} has no scored pairs"
        lacking = dict.fromkeys((*self.first.lacking, *self.second.lacking))
        if not lacking:
            return (
                f"not known: the {self.items} are too few, or the systems were scored on other "
                f"{self.items}"
            )
        model = next(iter(lacking))
        more = f" and of {counted(len(lacking) - 1, 'more trial')}" if len(lacking) > 1 else ""
        keeping = command(store, "eval", *model, "--suite", suite_option(card.name))
        return (
            f"not known: the test {'cosines' if self.items == PAIRS else self.items} of trial "
            f"{model[0]}{more} are not kept here; to keep them: {keeping}"
        )


def main_metric(first: System, second: System) -> str | None:
    """The metric of the verdict: the average, NDCG@10, or the last one that both have.

    One in which no value is better stands back behind the others. None: they have none.
    """
    shared = shared_metrics(first, second)
    for name in (first.card.average, NDCG):
        if name in shared:
            return name
    ranked = [name for name in shared if first.card.directions.get(name, 1)]
    return next(reversed(ranked or shared), None)


def items_named(card: SuiteCard) -> str:
    """The items of the tests of a suite: pairs, or the queries of a user's retrieval."""
    return QUERIES if NDCG in card.headings else PAIRS


def shared_metrics(first: System, second: System) -> list[str]:
    """The metrics that both systems have, the average last."""
    return [metric for metric in first.scored if metric in second.scored]


def stored_systems(
    parts: Sequence[tuple[str, Group]],
    kept_pairs_of: Callable[[str, str], Path],
    resamples: int = RESAMPLES,
) -> list[System]:
    """The rows of a store as systems. parts: the name of each, and its trials of one suite.

    kept_pairs_of: `Store.kept_pairs`. resamples: of the test pairs.
    """
    suite = str(parts[0][1].suite)
    kept = {
        trial.key: pairs
        for _, part in parts
        for trial in part.trials
        if (pairs := kept_as_stored(kept_pairs_of(trial.key, suite), part.scores(trial).test))
    }
    drawn = resampled_scores(parts[0][1].card, list(kept.values()), resamples) if kept else {}
    return [_system(name, part, list(kept), drawn) for name, part in parts]


def _system(
    name: str, part: Group, with_pairs: Sequence[str], drawn: Mapping[str, np.ndarray | None]
) -> System:
    lacking = tuple(
        tuple(part.model(trial)) for trial in part.trials if trial.key not in with_pairs
    )
    rows = [] if lacking else [with_pairs.index(key) for key in part.keys]
    trained, items = part.trials[0].trained, items_named(part.card)
    scored = {}
    for metric in filter(None, [*part.tasks, part.card.average]):
        if score := part.test.get(metric):
            of_all = drawn.get(metric)
            resampled = of_all[rows] if rows and of_all is not None else None
            scored[metric] = Scored(score.values, part.draws, trained, resampled, items)
    return System(name, part.card, scored, lacking)
