"""The cards of the shipped suites, which the evaluation and the tables use.

This module imports neither scipy nor torch, because `harness table` should print without waiting
for them. The scoring functions are in the modules that `SUITE_MODULES` names.
"""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated

from annotated_types import Interval, MinLen
from pydantic import ConfigDict, TypeAdapter

from harness.evaluation.scores import Origin

STS_AVERAGE = "avg"
"""The name of the mean over the seven STS tasks, which is computed within each trial"""
NDCG = "ndcg@10"
"""The figure of a user's retrieval by which it selects"""
STSB_DEV = "stsb-dev"
TRANSFER_DEV = "transfer-senteval-dev"


STRICT: ConfigDict = {"strict": True, "revalidate_instances": "always"}
"""Rules of pydantic for the suite of a user's file: no text counts as a number"""


@dataclass(frozen=True)
class SuiteCard:
    """The name of a suite, its metrics, and how its figures are printed."""

    __pydantic_config__ = STRICT

    name: Annotated[str, MinLen(1)]
    headings: Mapping[str, str] = field(default_factory=dict)
    """Test metric -> its heading in the papers, in the order of the papers, the average last.

    A metric that is not here is printed under its own name.
    """
    unit: str = ""
    """The unit of the scores as a caption names it; "": the suite has a unit of its own"""
    protocol: str = ""
    """Protocol of the suite, where papers differ or do not say it"""
    average: str | None = None
    """The metric that is the mean over the tests; as in papers, of scores with two decimals"""
    averages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further averages, which tables make of the scores of a trial -> the tests in them"""
    dev_tasks: tuple[str, ...] = ()
    """The tasks on development data; the first one selects"""
    directions: Mapping[str, int] = field(default_factory=dict)
    """Test metric -> -1 where lower is better, 0 where no value is; of others, higher is better"""
    decimals: Annotated[int, Interval(ge=0, le=12)] | None = None
    """Digits after the point; None: two, or four where all values are between -1 and 1"""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Task of mteb -> what measured it"""
    data: str = ""
    """In a record: the digest of a user's data and code, which tells suites of one name apart"""

    @property
    def units(self) -> str:
        """The unit of the scores as a caption names it."""
        return self.unit or f'Scores of the suite "{self.name}" in its own units'

    @property
    def dev(self) -> str | None:
        """The task that selects; None for a suite without a dev task."""
        return self.dev_tasks[0] if self.dev_tasks else None

    def tasks(self, names: Iterable[str]) -> tuple[str, ...]:
        """The test metrics without the average: first those with a heading, then other `names`."""
        printed = [name for name in self.headings if name != self.average]
        return (*printed, *sorted(set(names) - {*printed, self.average, *self.averages}))

    def averaged(self, test: Mapping[str, float]) -> dict[str, float]:
        """The further averages of a trial's test scores, of those that have all of their tests."""
        return {
            name: sum(round(test[task], 2) for task in tasks) / len(tasks)
            for name, tasks in self.averages.items()
            if set(tasks) <= test.keys()
        }

    def dumped(self) -> str | None:
        """The card as JSON, for the records of a user's suite; None for a shipped suite."""
        return None if CARDS.get(self.name) == self else json.dumps(asdict(self))


_SIX = (*(f"sts{year}" for year in range(12, 17)), "stsb")
_STS = SuiteCard(
    "sts",
    {
        **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
        "stsb": "STS-B",
        "sickr": "SICK-R",
        STS_AVERAGE: "Avg.",
    },
    unit="Spearman x100",
    average=STS_AVERAGE,
    averages={"avg-without-sickr": _SIX},  # CLSR's (clsr.md, section 5)
    dev_tasks=(STSB_DEV, "sickr-dev"),
    decimals=2,
)
_GRADED = SuiteCard(
    "graded", {"graded": "graded"}, unit="Spearman x100", dev_tasks=("graded-dev",), decimals=2
)
_TRANSFER = SuiteCard(
    "transfer-senteval",
    {
        **{task: task.upper() for task in ("mr", "cr", "subj", "mpqa")},
        "sst2": "SST",
        "trec": "TREC",
        "mrpc": "MRPC",
        "transfer-avg": "Avg.",
    },
    unit="Accuracy x100",
    protocol="SentEval's own classifier on frozen embeddings, which Adam trains until held-out "
    "rows end it: MR, CR, SUBJ and MPQA in a nested 10-fold cross-validation, SST, TREC and MRPC "
    "on their test sets; the penalty is chosen on held-out training rows, for SST on the dev set.",
    average="transfer-avg",
    dev_tasks=(TRANSFER_DEV,),
    decimals=2,
)
_RETRIEVAL = SuiteCard(
    "retrieval",
    {f"recall@{cutoff}": f"R@{cutoff}" for cutoff in (1, 3, 5, 10)},
    unit="Recall in percent",
    protocol="The distinct sentences of STS-B test are searched; queries are both sentences of the "
    "97 pairs with gold score 5.0, and the query itself is removed; a hit is the other sentence of "
    "the pair among the k nearest.",
    decimals=2,
)
_GEOMETRY = SuiteCard(
    "geometry",
    {
        "alignment": "Alignment",
        "uniformity": "Uniformity",
        "mean-cosine": "mean cosine",
        "first-component": "first component",
    },
    unit="Plain values, not x100",
    protocol="On STS-B test: alignment of the pairs with gold score above 4, uniformity of all "
    "sentences (both: lower is better), mean cosine of two sentences, share of the variance along "
    "the first principal component.",
    directions={"alignment": -1, "uniformity": -1, "mean-cosine": 0, "first-component": 0},
    decimals=4,
)

CARDS: Mapping[str, SuiteCard] = {
    card.name: card for card in (_STS, _GRADED, _TRANSFER, _RETRIEVAL, _GEOMETRY)
}
"""The shipped suites by name, in the order of their tables.

A published table is that of the first suite with its headings."""

SUITE_MODULES = {
    "sts": "harness.evaluation.sts",
    "graded": "harness.evaluation.sts",
    "transfer-senteval": "harness.evaluation.transfer",
    "retrieval": "harness.evaluation.retrieval",
    "geometry": "harness.evaluation.geometry",
}
"""Suite -> the module with its scoring function"""

DISPLAY: Mapping[str, str] = {
    **{metric: heading for card in CARDS.values() for metric, heading in card.headings.items()},
    STSB_DEV: "STS-B dev",
    TRANSFER_DEV: "transfer dev",
}
"""Metric -> its name as papers print it; other metrics are printed under their own name"""

CHOOSING = {card.dev: name for name, card in CARDS.items() if card.dev}
"""Dev score that can choose a configuration -> the shipped suite that has it"""


@dataclass(frozen=True)
class Metric:
    """The place of a score in the store: suite, metric, and split (`dev` or `test`)."""

    suite: str
    name: str
    split: str = "test"
    data: str = ""
    """The digest of a user's data, as the card of the suite has it"""


def metric_named(name: str) -> Metric | None:
    """The metric of a shipped suite with this name; None where no suite has it."""
    for suite, card in CARDS.items():
        if name in card.dev_tasks:
            return Metric(suite, name, "dev")
        if name in card.headings:
            return Metric(suite, name)
    return None


def card(name: str, dumped: str | None = None) -> SuiteCard:
    """The card of a suite.

    It is the card of the shipped suite, or else the one that a record holds as JSON (`dumped`), or
    else a card with the name alone.
    """
    if name in CARDS:
        return CARDS[name]
    return parsed_card(dumped) if dumped else SuiteCard(name)


@functools.cache
def parsed_card(dumped: str) -> SuiteCard:
    """The card that a text of JSON says. Raises ValueError for a field of another type."""
    return TypeAdapter(SuiteCard).validate_json(dumped)


def suite_option(name: str) -> str:
    """The name of a suite as `--suite` takes it.

    No record has the place of a user's files, so that the reader completes it: `PATH/pairs`.
    """
    return name if name in CARDS or name.startswith("mteb:") else f"PATH/{name}"


def suite_of(names: Iterable[str]) -> str:
    """The name of the suite of a record that does not name it, from the record's test metrics."""
    found = set(names) - {STS_AVERAGE}
    return "sts" if found <= set(_STS.headings) else " ".join(sorted(found))


def rank(suite: str) -> int:
    """The position of a suite in a list: shipped ones in the order of CARDS, then users' suites."""
    return list(CARDS).index(suite) if suite in CARDS else len(CARDS)


def headed(columns: Sequence[object]) -> list[str]:
    """The suites of a published table: those with a heading of the table, at last `sts`."""
    suites = []
    for suite, known in CARDS.items():
        own = {heading for metric, heading in known.headings.items() if metric != known.average}
        if suite != "sts" and own & set(columns):
            suites.append(suite)
    return [*suites, "sts"]


def metric_under(heading: str, columns: Sequence[object]) -> Metric:
    """The metric that a heading of a published table names.

    `Avg.` is the average of the suite, or a further average where the table has exactly its tests.
    A heading that no suite has is the average of STS: DiffCSE and D2CSE print it as `STS` beside
    the metrics of other suites.
    """
    for suite in headed(columns):
        card = CARDS[suite]
        metric = next((name for name, shown in card.headings.items() if shown == heading), None)
        if metric is not None and metric == card.average:
            printed = {name for name, shown in card.headings.items() if shown in columns}
            further = (name for name, tests in card.averages.items() if {*tests, metric} == printed)
            metric = next(further, metric)
        if metric is not None:
            return Metric(suite, metric)
    return Metric("sts", STS_AVERAGE)
