"""The end of a sweep: its table, its verdict, and what to do next.

The verdict says which system won, by how much, and who cannot be told apart from it. Dev scores
alone choose the winner. Test scores say by how much it is better, and nothing else.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow as pa

from harness.evaluation.catalogue import DISPLAY
from harness.report.cells import decimals_of, score_text
from harness.report.comparison import Compared, System, main_metric, stored_systems
from harness.report.groups import Group, comparable_groups
from harness.report.matching import best_on_dev, command
from harness.report.measured_trials import rows_of
from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper, papers
from harness.report.records import store_records
from harness.report.row_names import short_names
from harness.report.significance import SIGNIFICANT, holm, quantile
from harness.report.store_tables import group_numbers

MOST_SEEDS = 100
"""More seeds than these are not proposed"""
RESAMPLES = 300
"""Resamples of the test pairs, which are 19,000 in the STS tests, for dozens of models"""
SHOWN = 8
"""The most systems that are compared with the winner: those with the best dev scores"""


def sweep_groups(trials: pa.Table, keys: Collection[str]) -> list[Group]:
    """The groups of the final trials with these keys, the best dev score first."""
    return sorted(comparable_groups(rows_of(trials, keys)), key=lambda group: -group.dev_mean)


def sweep_table(groups: Iterable[Group]) -> pa.Table:
    """The groups as a table of STORE_SCHEMA: a row for each group and metric."""
    return store_records(part for group in groups for part in group.parts)


def next_commands(
    groups: list[Group],
    trials: pa.Table,
    methods: Collection[str],
    store: Path | str,
    swept: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """Three purposes and commands that come next after a sweep with these groups, the best first.

    All of them show trials of the sweep. `trials`: the rows of the store, with PAPER_COLUMNS.
    `methods`: the names of those that can be named without a path. `swept`: the options of the
    table that was swept; empty: a space was.
    """
    best = groups[0]
    trial = best.best_trial(best.trials) or best.trials[0]
    own, _ = trial.own or ("sts", "")
    named = all(group.method in methods for group in groups)
    # No paper has the pairs that come with harness, so the papers need not be read.
    if options := swept or (own != "graded" and _place_in_papers(groups, trials)):
        table = "these results beside the published ones", ["table", *options]
    else:
        table = "this table again; --format latex, markdown or csv for other uses", ["table"]
    if named and own == "sts":
        suites = "transfer-senteval,retrieval,geometry"
        one = "the best model on other tasks", ["eval", trial.key[:10], "--suite", suites]
    else:
        why = "the best trial: its values and scores, and the command that repeats it"
        one = why, ["show", trial.key[:10]]
    if len(groups) > 1:
        numbers = group_numbers(comparable_groups(trials))
        two = ["compare", *(str(numbers[group.identity]) for group in groups[:2])]
        last = "whether two rows differ by more than chance, test by test", two
    else:
        last = "all trials, with the keys that `harness show` takes", ["list", "trials"]
    return [(purpose, command(store, *words)) for purpose, words in (table, one, last)]


def _place_in_papers(groups: list[Group], trials: pa.Table) -> list[str]:
    """Options with which `harness table` shows some of the groups beside a paper, if any do.

    A paper that is named like one of the methods comes first.
    """
    keys = {key for group in groups for key in group.keys}
    methods = {group.method for group in groups}
    for option in ([], ["--encoder", groups[0].encoder]):
        comparer = Comparer(trials, *option[1:])
        for name in sorted(papers(), key=lambda name: name not in methods):
            paper = load_paper(name)
            for table in (comparer.table(paper, each) for each in paper.numbers.values()):
                scores = (cell.ours for cell in table.cells if cell.metric)
                if any(score and keys.intersection(score.keys) for score in scores):
                    return ["--paper", name, "--table", table.number, *option]
    return []


def verdicts(groups: Sequence[Group], kept_pairs: Callable[[str, str], Path]) -> list[str]:
    """Sentences about the groups of a sweep: for each encoder and suite, which system won.

    kept_pairs: that of the store.
    """
    alike: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    without: list[str] = []
    for name, group in zip(short_names(groups), groups, strict=True):
        own = [part for part in group.parts if part.own]
        if own and group.current and math.isinf(group.dev_mean):
            without.append(name)
        elif own and group.current:
            alike[group.encoder, str(own[0].suite), own[0].data, group.selects].append(own[0])
    several = len(alike) > 1
    lines = [
        f"{f'On {encoder}: ' if several else ''}{line}" if at == 0 else line
        for (encoder, *_), compared in alike.items()
        for at, line in enumerate(_verdict(compared, kept_pairs))
    ]
    left = [f"Not compared, for want of a dev score: {', '.join(without)}."] if without else []
    return [*lines, *left]


def _verdict(groups: Sequence[Group], kept_pairs: Callable[[str, str], Path]) -> list[str]:
    """Sentences of the verdict on groups that one suite has measured."""
    called = dict(zip((group.identity for group in groups), short_names(groups), strict=True))
    best = best_on_dev(groups)
    by_dev = sorted(groups, key=lambda group: (group is not best, -group.dev_mean))
    rows = [(called[group.identity], group) for group in by_dev[: SHOWN + 1]]
    winner, *others = stored_systems(rows, kept_pairs, RESAMPLES)
    dev = best.selected
    shown = f", {score_text(dev, decimals_of(best.card, [dev.mean]))}" if dev else ""
    lines = [
        f"{winner.name} wins with the best dev score{shown} "
        f"({DISPLAY.get(best.selects, best.selects)}){_on_test(best, winner)}"
    ]
    if len(groups) == 1:
        return [f"{lines[0]} It is the only one, so there is nothing to compare it with."]
    left = len(groups) - 1 - SHOWN
    more = [f"Not compared: {left} more, whose dev scores are lower."] if left > 0 else []
    return [*lines, *_against(winner, others), *more]


def _on_test(best: Group, winner: System) -> str:
    metric = main_metric(winner, winner)
    if metric is None:
        return ", and has no test score."
    compared = Compared(winner, winner, metric)
    seeds = f" over {best.n} seeds" if len(best.trials) > 1 else ""
    return (
        f"; test: {score_text(best.test[metric], compared.decimals)}{seeds} on {compared.heading}."
    )


def _against(winner: System, others: Sequence[System]) -> list[str]:
    """A sentence for each other system, and what more seeds would resolve."""
    metrics = [(other, main_metric(winner, other)) for other in others]
    compared = [Compared(winner, other, metric) for other, metric in metrics if metric]
    heads = [pair.headline for pair in compared]
    p_values = holm(np.array([head.p_value if head else np.nan for head in heads]))
    settled = [bool(p <= SIGNIFICANT) for p in p_values]
    lines = [pair.verdict(settled=sure) for pair, sure in zip(compared, settled, strict=True)]
    both = zip(compared, settled, strict=True)
    open_ones = [pair for pair, sure in both if pair.defined and not sure]
    return [*lines, *_more_seeds(open_ones)]


def _more_seeds(compared: Sequence[Compared]) -> list[str]:
    """Sentences about what more seeds would resolve among systems that cannot be told apart."""
    tests = len(compared)
    needed = {each.second.name: seeds_needed(each, tests) for each in compared if each.seeds}
    lines = [
        f"About {n} seeds of each would tell {compared[0].first.name} from {name}, if the "
        f"difference stays as it is."
        for name, n in needed.items()
        if n is not None
    ]
    never = [name for name, n in needed.items() if n is None]
    single = [pair.second.name for pair in compared if pair.seeds is None and pair.trained]
    return [
        *lines,
        *([f"No likely number of seeds would tell it from {', '.join(never)}."] if never else []),
        *([f"With one seed, its spread is not known: {', '.join(single)}."] if single else []),
    ]


def seeds_needed(compared: Compared, tests: int = 1) -> int | None:
    """The number of seeds that would make the difference significant, if it stays as it is.

    It is above the number that is there. None where no number up to MOST_SEEDS does, since the test
    pairs alone leave more doubt. tests: the differences that are open, for Holm's correction.
    """
    trained = [side for side in compared.sides if side.trained]
    spreads = [float(np.var(side.values, ddof=1)) for side in trained if len(side.values) > 1]
    if not spreads:
        return None
    variance = len(trained) * sum(spreads) / len(spreads)
    level, normal = SIGNIFICANT / tests, NormalDist()
    wider = normal.inv_cdf(level / 2) / normal.inv_cdf(SIGNIFICANT / 2)
    pairs = wider * compared.pairs.reach if compared.pairs else 0.0
    n = np.arange(max(len(side.values) for side in trained) + 1, MOST_SEEDS + 1)
    reach = quantile(len(trained) * (n - 1), level) * np.sqrt(variance / n)
    enough = n[np.hypot(reach, pairs) < abs(compared.value)]
    return int(enough[0]) if len(enough) else None
