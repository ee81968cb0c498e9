"""What a report lacks, and the commands that fill it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from harness.evaluation.catalogue import DISPLAY
from harness.report.measured.groups import Group
from harness.report.published.commands import Commands
from harness.report.published.comparison import Comparer
from harness.report.published.reported import Paper
from harness.report.published.shares import table_share
from harness.report.sheets.notes import counted
from harness.trials.record import Record


@dataclass(frozen=True)
class Gap:
    """Something that the store lacks, and the command that fills it."""

    what: str
    command: str


def paper_gaps(paper: Paper, comparer: Comparer, commands: Commands) -> Iterator[Gap]:
    """The tables of a paper that the store has not filled, each with its command."""
    for name in paper.shown:
        table = comparer.table(paper, name)
        share = table_share(table, commands.methods)
        if share.filled < share.runnable and table.table.kind != "hyperparameters":
            command = commands.table(paper.paper, table.number, comparer.encoder)
            yield Gap(f"{share.name}, {share.about}: {share}", command)


def store_gaps(groups: Iterable[Group], commands: Commands) -> Iterator[Gap]:
    """The tests that some trial of a row lacks, with the command for the first such trial."""
    for part in (part for group in groups for part in group.parts):
        lacking = [name for name in part.tasks if name not in part.test]
        if not lacking:
            continue
        suite = str(part.suite)
        trial = next(
            trial
            for trial in part.trials
            if any(name not in trial.suites[suite].test for name in lacking)
        )
        tests = ", ".join(DISPLAY.get(name, name) for name in lacking)
        row = f"{part.method} {part.setting} {part.encoder}"
        model = [trial.key[:10]]
        if trial.own is None:  # what only `harness eval` has measured has a name and no key
            model = [part.encoder]
            if part.method == "pooling":
                model += ["--pooling", str(part.configuration["pooling"])]
        yield Gap(f"{row} has no score of {tests}", commands.evaluation(model, suite))


def failed_trials(records: Iterable[Record], command: Callable[[Record], str]) -> Iterator[Gap]:
    """The trials that failed, by method, setting and encoder; the command runs the first again."""
    failed = [each for each in records if each.status == "failed" and each.role != "evaluation"]
    kinds = Counter((each.method, each.setting, each.encoder) for each in failed)
    for kind, count in sorted(kinds.items()):
        first = next(each for each in failed if (each.method, each.setting, each.encoder) == kind)
        more = "; the same sweep tries all of them again" if count > 1 else ""
        what = f"{counted(count, 'failed trial')} of {' '.join(kind)}{more}"
        yield Gap(what, command(first))
