"""What a finished sweep leaves: its table with the score of each trial, and what to do next."""

import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from harness.report.measured.groups import Group, comparable_groups
from harness.report.published.comparison import Comparer
from harness.report.published.reported import load_paper, papers
from harness.report.stores.store_records import records_of
from harness.report.stores.store_tables import group_numbers
from harness.trials.store_folders import store_option


class NextCommand(NamedTuple):
    """A command that comes next, and what it is for."""

    purpose: str
    command: str


def sweep_groups(trials: pa.Table, keys: Collection[str]) -> list[Group]:
    """The groups of the final trials with these keys, the best dev score first."""
    names = pa.array(sorted(keys), pa.string())
    ours = pc.or_kleene(pc.is_in(trials["key"], names), pc.is_in(trials["evaluates"], names))
    return sorted(comparable_groups(trials.filter(ours)), key=lambda group: -group.dev_mean)


def sweep_table(groups: Iterable[Group]) -> pa.Table:
    """The groups as a table of STORE_SCHEMA: a row for each group and metric."""
    return records_of(part for group in groups for part in group.parts)


def next_commands(
    groups: list[Group], trials: pa.Table, known: Collection[str], store: Path | str
) -> list[NextCommand]:
    """Three commands that come next after a sweep with these groups, the best of which is first.

    All of them show trials of the sweep. `trials`: the rows of the store, with PAPER_COLUMNS.
    `known`: the names of the methods that can be named without a path.
    """
    best = groups[0]
    own = best.trials[0].own or "sts"
    named = all(group.method in known for group in groups)
    # No paper has the pairs that come with harness, so the papers need not be read.
    if own != "graded" and (place := _place_in_papers(groups, trials)):
        table = "these results beside the published ones", ["table", *place]
    else:
        table = "this table again; --format latex, html or csv for other uses", ["table"]
    if named and own == "sts":
        suites = "transfer,retrieval,geometry"
        one = "the best model on other tasks", ["eval", best.keys[0][:10], "--suite", suites]
    else:
        why = "the best trial: its values and scores, and the command that repeats it"
        one = why, ["show", best.keys[0][:10]]
    if len(groups) > 1:
        numbers = group_numbers(comparable_groups(trials))
        two = ["compare", *(str(numbers[group.identity]) for group in groups[:2])]
        last = "whether two rows differ by more than chance, test by test", two
    else:
        last = "all trials, with the keys that `harness show` takes", ["list", "trials"]
    return [
        NextCommand(purpose, shlex.join(["harness", *words, *store_option(store)]))
        for purpose, words in (table, one, last)
    ]


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
            for table in (comparer.table(paper, each) for each in paper.shown):
                cells = (number.cell for number in table.numbers if number.metric)
                if any(cell and keys.intersection(cell.keys) for cell in cells):
                    return ["--paper", name, "--table", table.number, *option]
    return []
