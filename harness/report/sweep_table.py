"""What a finished sweep leaves: its table with the score of each trial, and what to do next."""

import shlex
from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.report.measured.groups import Group, comparable_groups
from harness.report.published.reported import papers
from harness.report.stores.store_records import records_of
from harness.trials.store_folders import store_option


def sweep_groups(trials: pa.Table, keys: Collection[str]) -> list[Group]:
    """The groups of the final trials with these keys, the best dev score first."""
    names = pa.array(sorted(keys), pa.string())
    ours = pc.or_kleene(pc.is_in(trials["key"], names), pc.is_in(trials["evaluates"], names))
    return sorted(comparable_groups(trials.filter(ours)), key=lambda group: -group.dev_mean)


def sweep_table(groups: Iterable[Group]) -> pa.Table:
    """The groups as a table of STORE_SCHEMA: a row for each group and metric."""
    return records_of(part for group in groups for part in group.parts)


def next_commands(groups: list[Group], known: Collection[str], store: Path | str) -> list[str]:
    """Three commands that come next after a sweep with these groups, the best of which is first.

    `known`: the names of the methods that can be named without a path.
    """
    best = groups[0]
    paper = next((group.method for group in groups if group.method in papers()), None)
    others = [key for group in groups for key in group.keys if key != best.keys[0]]
    own = best.trials[0].own or "sts"
    comparable = bool(others) and own in ("sts", "graded")
    named = all(group.method in known for group in groups)
    commands = [
        ["table", "--paper", paper] if paper else ["table", "--format", "markdown"],
        ["show", best.keys[0][:10]],
        ["list", "trials"],
    ]
    if named and own == "sts":
        commands[1] = ["eval", best.keys[0][:10], "--suite", "transfer,retrieval,geometry"]
    if named and comparable:
        rival = groups[1].keys[0] if len(groups) > 1 else others[0]
        commands[2] = ["compare", best.keys[0][:10], rival[:10], "--suite", own]
    return [shlex.join(["harness", *words, *store_option(store)]) for words in commands]
