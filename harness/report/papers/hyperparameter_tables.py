"""Published tables of hyperparameters beside the defaults that our plugins have."""

from harness.report.papers.paper_notes import Sources
from harness.report.papers.paper_records import paper_records
from harness.report.published.commands import Commands
from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.published.published_values import published_values
from harness.report.published.reported import Value
from harness.report.published.systems import load_systems
from harness.report.sheets.rows import SheetLine, value_text
from harness.report.sheets.sheet import Section, Sheet

HYPERPARAMETERS_CAPTION = (
    "Chosen hyperparameters; ours: what the method does where nothing is set (its published values "
    "and defaults); ≠: not the paper's value."
)


def hyperparameter_sheet(table: ComparedTable, commands: Commands) -> Sheet:
    """The hyperparameters of a paper, with the values that our method has where none is set."""
    numbers, sources = list(table.numbers), Sources(table)
    ours = {
        place: value_text(found)
        for place, each in enumerate(numbers)
        if (found := default_of(each, commands)) is not None
    }
    return Sheet(
        title=table.title,
        columns=["", "", *map(str, table.table.columns)],
        text_columns=2,
        sections=_sections(table, ours, sources),
        caption=HYPERPARAMETERS_CAPTION,
        notes=[*sources.notes, *load_systems().notes(table.paper.paper, table.name)],
        make_records=lambda: paper_records(table, commands, ours),
        shortfalls=[
            f"{table.paper.paper}.{table.number} {each.row.label}, {each.column}: the default is "
            f"{ours[place]}, not {value_text(each.value)}"
            for place, each in enumerate(numbers)
            if each.value is not None and ours.get(place, "") not in ("", value_text(each.value))
        ],
    )


def default_of(each: ComparedNumber, commands: Commands) -> Value:
    """The value of a row's field in our method; None where there is no such method here."""
    if each.wanted is None or each.wanted.method not in commands.methods:
        return None
    found: Value = published_values(each.wanted).get(str(each.row.field))
    return found


def _sections(table: ComparedTable, ours: dict[int, str], sources: Sources) -> list[Section]:
    place = 0
    sections = []
    for heading, rows in table.sections:
        lines: list[SheetLine] = []
        for row in rows:
            found = [ours.get(place + index, "") for index in range(len(row))]
            lines += _lines(row, found, sources)
            place += len(row)
        sections.append(Section(heading, lines))
    return sections


def _lines(row: list[ComparedNumber], ours: list[str], sources: Sources) -> list[SheetLine]:
    label = f"{row[0].row.label} {sources.mark(row[0].row.origin)}"
    published = ["" if each.value is None else value_text(each.value) for each in row]
    marked = [
        f"{own} ≠" if own and said and own != said else own
        for own, said in zip(ours, published, strict=True)
    ]
    return [[label, "published", *published], ["", "ours" if any(ours) else "no method", *marked]]
