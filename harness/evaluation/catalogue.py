"""What the tables know of a suite: its columns in the papers' order, its units and decimals, how it is measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

AVERAGE = "avg"  # the mean over the tasks, taken within each trial
STSB_DEV = "stsb-dev"


@dataclass(frozen=True)
class Layout:
    """How a suite is printed."""

    headings: Mapping[str, str]
    """Test metric -> its heading in the papers, in their order, the average last"""
    unit: str
    protocol: str = ""
    """How it is measured, where papers differ or leave it out"""
    average: str | None = None
    """The metric that is a mean over the others"""
    dev: str | None = None
    """What the suite itself would select by"""
    decimals: int | None = 2
    """None: two, or four where all values lie between -1 and 1"""


LAYOUTS: Mapping[str, Layout] = {
    "sts": Layout(
        {
            **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
            "stsb": "STS-B",
            "sickr": "SICK-R",
            AVERAGE: "Avg.",
        },
        unit="Spearman x100",
        average=AVERAGE,
        dev=STSB_DEV,
    ),
    "graded": Layout({"graded": "graded"}, unit="Spearman x100", dev="graded-dev"),
    "transfer": Layout(
        {
            **{task: task.upper() for task in ("mr", "cr", "subj", "mpqa")},
            "sst2": "SST",
            "trec": "TREC",
            "mrpc": "MRPC",
            "transfer-avg": "Avg.",
        },
        unit="Accuracy x100",
        protocol="SentEval's protocol: a logistic regression on frozen embeddings; MR, CR, SUBJ and MPQA in a nested "
        "10-fold cross-validation, SST, TREC and MRPC on their test sets; its penalty is chosen on held-out training "
        "rows, for SST on the dev set.",
        average="transfer-avg",
        dev="transfer-dev",
    ),
    "retrieval": Layout(
        {f"recall@{cutoff}": f"R@{cutoff}" for cutoff in (1, 3, 5, 10)},
        unit="Recall in percent",
        protocol="Searched are the distinct sentences of STS-B test; queries are both sentences of the 97 pairs with "
        "gold score 5.0, the query itself removed; a hit is the other sentence of the pair among the k nearest.",
    ),
    "geometry": Layout(
        {
            "alignment": "Alignment",
            "uniformity": "Uniformity",
            "mean-cosine": "mean cosine",
            "first-component": "first component",
        },
        unit="Plain values, not x100",
        protocol="On STS-B test: alignment of the pairs with gold score above 4, uniformity of all sentences (both: "
        "lower is better), mean cosine of two sentences, share of the variance along the first principal component.",
        decimals=4,
    ),
}
"""The suites that are shipped, in the order of their sheets"""

DISPLAY: Mapping[str, str] = {
    **{
        metric: heading
        for layout in LAYOUTS.values()
        for metric, heading in layout.headings.items()
    },
    STSB_DEV: "STS-B dev",
    "transfer-dev": "transfer dev",
}
"""Names of metrics as papers print them; the others are printed as they are."""


@dataclass(frozen=True)
class Metric:
    """Where a published number is to be looked for."""

    suite: str
    name: str
    split: str = "test"


def layout(suite: str) -> Layout:
    """Any suite's; the units of a user's own are its own."""
    own = Layout(
        {}, f'Scores of the suite "{suite}" in its own units', average=AVERAGE, decimals=None
    )
    return LAYOUTS.get(suite, own)


def tasks(suite: str, names: Iterable[str]) -> tuple[str, ...]:
    """The suite's test metrics without their average: all of a shipped one, also those that `names` does not have, then
    the others of `names`."""
    known = layout(suite)
    printed = [name for name in known.headings if name != known.average]
    return (*printed, *sorted(set(names) - {*printed, known.average}))


STS_TASKS = tasks("sts", ())


def unnamed(names: Iterable[str]) -> str:
    """The name of a suite that a record does not name, from its test metrics."""
    found = set(names) - {AVERAGE}
    return "sts" if found <= set(STS_TASKS) else " ".join(sorted(found))


def rank(suite: str) -> int:
    """Position among the suites of a store: in the order of LAYOUTS, a user's own after them."""
    return list(LAYOUTS).index(suite) if suite in LAYOUTS else len(LAYOUTS)


def headed(columns: Sequence[object]) -> str:
    """The suite of a published table, from its headings: `sts` for any that is not another's."""
    for suite, known in LAYOUTS.items():
        own = {heading for metric, heading in known.headings.items() if metric != known.average}
        if suite != "sts" and own & set(columns):
            return suite
    return "sts"


def metric_under(heading: str, columns: Sequence[object]) -> Metric:
    """The metric under a heading of a published table. `Avg.` is the suite's own average, or else that of STS, which
    DiffCSE and D2CSE also print as `STS` beside other suites."""
    for suite in (headed(columns), "sts"):
        for metric, shown in LAYOUTS[suite].headings.items():
            if shown == heading:
                return Metric(suite, metric)
    return Metric("sts", AVERAGE)
