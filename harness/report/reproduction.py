"""The verdict on a reproduced table: how each row compares, and on what set-up."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import counted
from harness.evaluation.catalogue import CARDS
from harness.report.cells import Cell, p_text, score_text
from harness.report.notes import Matched, marks, matched_trials, set_ups
from harness.report.paper_cells import PaperTable
from harness.report.quantities import PAPER_COLUMNS
from harness.report.significance import prediction
from harness.report.tables import Line, Row, Section, Table

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
