"""The verdict on a reproduced table: how each row compares, and on what set-up."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from harness.evaluation.catalogue import CARDS
from harness.report.papers.paper_notes import mark_notes
from harness.report.papers.setups import Setups
from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.sheets.rows import SheetLine
from harness.report.sheets.sheet import Section, Sheet
from harness.report.statistics.prediction import prediction
from harness.report.statistics.significance import SIGNIFICANT

VERDICT_COLUMNS = (
    "row", "column", "n", "ours", "lowest", "highest", "95 % of runs", "published", "p", "verdict",
)  # fmt: skip
VERDICT_CAPTION = (
    "ours: mean±sample std over n runs, with the lowest and the highest of them. 95 % of runs: "
    "where one more run of ours would be with that probability (mean ± t(n - 1) * std * "
    "sqrt(1 + 1/n), for normal values). p: how likely one more run is at least as far from our "
    "mean as the published number. One run has neither."
)


def verdict_sheet(table: ComparedTable, setups: Setups) -> Sheet:
    """The verdict on a table of scores: a line for each row and each of its main columns."""
    sections = [
        Section(heading, [_line(each) for row in rows for each in _main(row)])
        for heading, rows in table.sections
    ]
    shown = [each for row in table.rows for each in _main(row)]
    lines = [line for section in sections for line in section.lines]
    return Sheet(
        title=f"Verdict on Table {table.number}: {table.table.about}",
        columns=VERDICT_COLUMNS,
        text_columns=2,
        sections=sections,
        caption=VERDICT_CAPTION,
        notes=[*mark_notes(shown), _count(shown), *setups.notes(shown)],
        make_records=lambda: pa.Table.from_pylist(
            [dict(zip(VERDICT_COLUMNS, line, strict=True)) for line in lines]
        ),
    )


def _main(row: Sequence[ComparedNumber]) -> list[ComparedNumber]:
    """The average of a row where it has one, or else its columns of scores."""
    scores = [each for each in row if each.published is not None]
    averages = [each for each in scores if each.metric and each.metric.name in _AVERAGES]
    return averages or scores


_AVERAGES = {name for card in CARDS.values() for name in (card.average, *card.averages) if name}


def _line(each: ComparedNumber) -> SheetLine:
    cell, found, places = each.cell, prediction(each.cell), f".{each.decimals}f"
    names = [f"{each.row.label} ({_setting(each)})", each.column, each.n or ""]
    published = each.printed
    if cell is None:
        return [*names, "", "", "", "", published, "", verdict(each)]
    std = "" if cell.std is None else f"±{cell.std:{places}}"
    values = cell.values or (cell.mean,)
    ends = " to ".join(format(end, places) for end in found.interval) if found else ""
    compared = found is not None and each.delta is not None
    p = f"{found.p_value(float(each.published or 0)):.3f}" if found and compared else ""
    numbers = [
        f"{cell.mean:{places}}{std}",
        format(min(values), places),
        format(max(values), places),
    ]
    return [*names, *numbers, ends, published, p, verdict(each)]


def _setting(each: ComparedNumber) -> str:
    return each.wanted.setting if each.wanted else str(each.row.setting)


def verdict(each: ComparedNumber) -> str:
    """What can be said of a published number: whether it agrees with our runs, or why not."""
    if each.wanted is None:
        return "quoted only"
    if each.cell is None:
        missing = "not measured" if each.found else "not run"
        return "needs input" if each.wanted.needs and not each.found else missing
    if each.unlike:
        return "another system"
    if each.foreign:
        return "another protocol"
    if each.wanted.published_encoder:
        return f"on {each.wanted.encoder}"
    if each.delta is None:
        return "counted differently"
    if not each.cell.trained:
        return "agrees" if not round(each.delta, each.decimals) else "differs"
    found = prediction(each.cell)
    if found is None:
        return "one run"
    return "agrees" if found.p_value(float(each.published or 0)) >= SIGNIFICANT else "differs"


def _count(shown: Iterable[ComparedNumber]) -> str:
    """How many published numbers have each verdict, as a sentence."""
    counts: dict[str, int] = {}
    for each in shown:
        counts[verdict(each)] = counts.get(verdict(each), 0) + 1
    parts = [f"{name}: {number}" for name, number in sorted(counts.items())]
    return f"Of {sum(counts.values())} published numbers: {', '.join(parts)}."
