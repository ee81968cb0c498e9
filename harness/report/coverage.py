"""Share of a paper that a store has, and the verdict on it.

Shares of tables and figures, commands that fill the rest, and how each row of a reproduced table
compares, with the set-up of its trials.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import counted
from harness.evaluation.catalogue import CARDS, DISPLAY, suite_option
from harness.report.cells import Cell, p_text, score_text
from harness.report.groups import Group
from harness.report.matching import Commands, Wanted, command
from harness.report.notes import Matched, marks, matched_trials, set_ups
from harness.report.paper import Paper, load_systems
from harness.report.paper_cells import Comparer, PaperTable
from harness.report.quantities import PAPER_COLUMNS, Special
from harness.report.significance import prediction
from harness.report.tables import Line, Row, Section, Table
from harness.trials.record import Record

_FACTS = ("device", "versions", "commit")
SETUP_COLUMNS = tuple(dict.fromkeys([*PAPER_COLUMNS, *_FACTS]))
"""The columns of the store that a reproduction report needs"""
VERDICT_COLUMNS = (
    "row", "column", "n", "ours", "lowest", "highest", "95 % of runs", "published", "p", "verdict",
)  # fmt: skip
VERDICT_CAPTION = (
    "ours: mean±sample std over n runs, with the lowest and the highest of them. 95 % of runs: "
    "where one more run of ours would be with that probability (mean ± t(n - 1) * std * "
    "sqrt(1 + 1/n), for normal values). p: how likely one more run is at least as far from our "
    "mean as the published number. One run has neither."
)
_AVERAGES = {name for card in CARDS.values() for name in (card.average, *card.averages) if name}


@dataclass(frozen=True)
class Share:
    """The share of a table or a figure in a store; a cell is a value that the paper prints."""

    name: str
    """Such as `Table 3` or `Figure 2`"""
    about: str
    noun: str
    """The things that are counted, such as `cells`"""
    filled: int
    runnable: int
    """The filled ones, and those that can be run here"""
    needing: int
    """The number of those that need something of the user's, such as a file"""
    quoted: int
    """The number of those that no method here makes"""

    def __str__(self) -> str:
        needing = f"{self.needing} need input" if self.needing else ""
        quoted = f"{self.quoted} quoted only" if self.quoted else ""
        filled = f"{self.filled} of {self.runnable} {self.noun}"
        return ", ".join(filter(None, [filled, needing, quoted]))


def shares(paper: Paper, comparer: Comparer, methods: Collection[str]) -> Iterator[Share]:
    """The share of each table and each figure of a paper, in the paper's order.

    methods: the names of the methods that can be run here.
    """
    for name in paper.numbers.values():
        yield table_share(comparer.table(paper, name), methods)
    for name, of_table in paper.figures.items():
        share = table_share(comparer.table(paper, of_table.table), methods)
        title = f"Figure {name.removeprefix('figure')}"
        yield replace(share, name=title, about=of_table.about, noun="points")
    for of_figure, figure in load_systems().figures.items():
        of, _, name = of_figure.partition(".")
        if of == paper.paper:
            points = [
                (wanted, bool(group and group.current))
                for wanted, group in comparer.figure(of_figure)
            ]
            title = f"Figure {name.removeprefix('figure')}"
            yield _share(title, figure.about, "runs", points, methods)


def table_share(compared: PaperTable, methods: Collection[str]) -> Share:
    """The share of a table; all hyperparameters of a method that is here have a default."""
    defaults, cells = compared.table.kind == "hyperparameters", []
    for cell in compared.cells:
        published = cell.published
        if published is None or published.measure is Special.GIVEN:
            continue
        if published.value is None and not cell.alone:
            continue
        asked = published.measure in (Special.SENTENCE, Special.COSINE)  # of a model of the trials
        filled = (cell.group if asked else cell.ours) is not None and not cell.is_foreign
        cells.append((cell.wanted, _here(cell.wanted, methods) if defaults else filled))
    noun = "defaults" if defaults else "cells"
    return _share(f"Table {compared.number}", compared.table.about, noun, cells, methods)


def _share(
    title: str,
    about: str,
    noun: str,
    cells: Sequence[tuple[Wanted | None, bool]],
    methods: Collection[str],
) -> Share:
    filled = sum(there for _, there in cells)
    runnable = sum(there or _here(wanted, methods) for wanted, there in cells)
    needing = sum(bool(wanted and wanted.needs) and not there for wanted, there in cells)
    return Share(title, about, noun, filled, runnable, needing, len(cells) - runnable - needing)


def _here(wanted: Wanted | None, methods: Collection[str]) -> bool:
    return wanted is not None and wanted.is_here(methods) and not wanted.needs


def lacking(compared: PaperTable, seeds: int, subsets: int) -> list[Wanted]:
    """The trials that would fill the gaps of a table, each once, in the order of its cells.

    A cell is filled by so many `seeds`, and by so many label `subsets` with each of them where it
    uses a share of the labels. Where a trial is there and only a suite has not measured it, nothing
    is lacking but `harness eval`. Cells that are only quoted are left out.
    """
    if compared.table.kind == "hyperparameters":
        return []
    gaps = (cell for cell in compared.cells if not _has_all(cell, seeds, subsets))
    return list(dict.fromkeys(cell.wanted for cell in gaps if cell.wanted))


def _has_all(cell: Cell, seeds: int, subsets: int) -> bool:
    """Whether the store has as many trials for a cell as are asked for."""
    if cell.group is None or cell.wanted is None or cell.is_foreign:
        return False
    trials = cell.group.trials
    if not trials[0].trained:
        return True
    share = dict(cell.wanted.configuration).get("label_fraction", 1) < 1
    return len(trials) >= seeds * (subsets if share else 1)


@dataclass(frozen=True)
class Gap:
    """Something that the store lacks, and the command that fills it."""

    lack: str
    command: str


def paper_gaps(paper: Paper, comparer: Comparer, commands: Commands) -> Iterator[Gap]:
    """The tables of a paper that the store has not filled, each with its command."""
    for name in paper.numbers.values():
        table = comparer.table(paper, name)
        share = table_share(table, commands.methods)
        if share.filled < share.runnable and table.table.kind != "hyperparameters":
            command = commands.table("sweep", paper.paper, table.number)
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
            if any(name not in part.scores(trial).test for name in lacking)
        )
        tests = ", ".join(DISPLAY.get(name, name) for name in lacking)
        row = f"{part.method} {part.setting} {part.encoder}"
        words = [*part.model(trial), "--suite", suite_option(suite)]
        yield Gap(f"{row} has no score of {tests}", command(commands.store, "eval", *words))


def failed_trials(records: Iterable[Record], command: Callable[[Record], str]) -> Iterator[Gap]:
    """The trials that failed, by method, setting and encoder; the command runs the first again."""
    kinds: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for each in records:
        if each.status == "failed" and each.role != "evaluation":
            kinds[each.method, each.setting, each.encoder].append(each)
    for kind, failed in sorted(kinds.items()):
        more = "; the same sweep tries all of them again" if len(failed) > 1 else ""
        failures = f"{counted(len(failed), 'failed trial')} of {' '.join(kind)}{more}"
        yield Gap(failures, command(failed[0]))


def verdict_table(compared: PaperTable, trials: pa.Table) -> Table:
    """The verdict on a table of scores: a line for each row and each of its main columns.

    `trials`: the rows of the store, with SETUP_COLUMNS.
    """
    sections = [
        Section(heading, [_line(cell) for row in rows for cell in _main(row)])
        for heading, rows in compared.sections
    ]
    shown = [cell for _, rows in compared.sections for row in rows for cell in _main(row)]
    lines = [line for section in sections for line in section.lines]
    counts = Counter(verdict(cell) for cell in shown if not cell.alone)
    listed = ", ".join(f"{name}: {number}" for name, number in sorted(counts.items()))
    total = counted(counts.total(), "published number")
    return Table(
        title=f"Verdict on Table {compared.number}: {compared.table.about}",
        columns=VERDICT_COLUMNS,
        text_columns=2,
        sections=sections,
        caption=VERDICT_CAPTION,
        notes=[
            *marks(shown),
            *([f"Of {total}: {listed}."] if listed else []),
            *_setup_notes(matched_trials(shown), trials),
        ],
        make_records=lambda: pa.Table.from_pylist(
            [dict(zip(VERDICT_COLUMNS, line, strict=True)) for line in lines]
        ),
    )


def _main(row: Row) -> list[Cell]:
    """The average of a row where it has one, or else its columns of scores."""
    scores = [cell for cell in row.cells if cell.asks]
    averages = [cell for cell in scores if cell.metric and cell.metric.name in _AVERAGES]
    return averages or scores


def _line(cell: Cell) -> Line:
    published, score, places = cell.published, cell.ours, f".{cell.decimals}f"
    assert published is not None
    setting = cell.wanted.setting if cell.wanted else str(published.row.setting)
    names = [f"{published.row.label} ({setting})", published.column, cell.n or ""]
    if score is None:
        return [*names, "", "", "", "", published.printed, "", verdict(cell)]
    predicted = prediction(score)
    values = score.values or (score.mean,)
    ends = " to ".join(format(end, places) for end in predicted.interval) if predicted else ""
    p = ""
    if predicted and cell.difference is not None:
        p = p_text(predicted.p_value(cell.number or 0.0))
    return [
        *names,
        score_text(score, cell.decimals),
        format(min(values), places),
        format(max(values), places),
        *(ends, published.printed, p, verdict(cell)),
    ]


def verdict(cell: Cell) -> str:
    """The verdict on a published number: whether it agrees with our runs, or why not."""
    wanted, published = cell.wanted, cell.published
    if wanted is None or published is None:
        return "quoted only"
    if cell.ours is None:
        missing = "not measured" if cell.group else "not run"
        return "needs input" if wanted.needs and not cell.group else missing
    if cell.alone:
        return "not published"
    if cell.why_not:
        return cell.why_not[0]
    return {True: "agrees", False: "differs", None: "one run"}[cell.agrees]


def _setup_notes(matched: Matched, trials: pa.Table) -> list[str]:
    """Sentences: devices, versions, protocol, and what differs from the paper in each row."""
    if not matched:
        return []
    groups, rows = [group for _, group in matched.values()], set_ups(matched)
    keys = pa.array(sorted({key for group in groups for key in group.keys}), pa.string())
    wanted = trials.filter(pc.is_in(trials["key"], keys))
    records = wanted.select(_FACTS).to_pylist()
    lines = {
        "Device": _listed(row["device"] for row in records),
        "Versions": _listed(_versions(row["versions"]) for row in records),
        "Commit": _listed(row["commit"] for row in records),
        "Protocol": _listed((group.provenance["protocol"] for group in groups), "group"),
        "Precision": _listed((group.provenance["precision"] for group in groups), "group"),
    }
    return [
        *(f"{name}: {text}" for name, text in lines.items() if text),
        *(
            f"Set-up of {'every row' if len(rows) == 1 else labels}: {text or 'as published'}"
            for text, labels in rows.items()
        ),
    ]


def _versions(text: str | None) -> str:
    versions = json.loads(text or "{}") or {}
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _listed(values: Iterable[Any], noun: str = "trial") -> str:
    """The one value, or each of several with the number of its trials."""
    counts = Counter(str(value) for value in values if value not in (None, ""))
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({counted(n, noun)})" for value, n in sorted(counts.items()))
