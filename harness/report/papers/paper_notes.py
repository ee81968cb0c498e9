"""The notes under a published table: sources, marks, choices, and how the table is filled."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from harness.evaluation.catalogue import CARDS, DISPLAY, STAND_INS
from harness.report.measured.groups import Group
from harness.report.measured.quantities import Quantity
from harness.report.published.commands import Commands
from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.sheets.notes import foreign
from harness.report.sheets.rows import n_text

OTHER_SYSTEM = "§"
"""The mark at a row whose published number is of another system than ours"""


class Sources:
    """The sources of published numbers; each is cited by its place among them."""

    def __init__(self, table: ComparedTable) -> None:
        """`table`: whose rows and numbers name their sources."""
        found = (
            name
            for each in table.numbers
            for name in (each.row.origin or "this paper", each.origin)
        )
        self._origins = list(dict.fromkeys(found))
        self._runs = {
            column: table.table.runs[column]
            for column in map(str, table.table.columns)
            if column in table.table.runs
        }

    def mark(self, origin: str | None) -> str:
        """The citation of a source, such as `[2]`."""
        return f"[{self._origins.index(origin or 'this paper') + 1}]"

    @property
    def notes(self) -> list[str]:
        """What the marks mean, and the number of runs behind the published numbers of a column."""
        origins = [origin.replace("quoted:", "quoted from ") for origin in self._origins]
        return [
            *(f"[{index}] {origin}" for index, origin in enumerate(origins, 1)),
            *(f"published, {column}: {n}" for column, n in self._runs.items()),
        ]


def n_notes(rows: Iterable[Sequence[ComparedNumber]]) -> list[str]:
    """Which column has which n, for the rows whose columns have several."""
    notes: dict[str, None] = {}  # a set in the order of the table
    for row in rows:
        columns: dict[str, list[str]] = defaultdict(list)
        for each in row:
            if each.n not in (None, "0"):
                columns[str(each.n)].append(each.column)
        if len(columns) > 1:
            found = "; ".join(f"{n} in {', '.join(names)}" for n, names in columns.items())
            notes[f"n = {n_text(list(columns))}: {found}"] = None
    return list(notes)


def mark_notes(numbers: Sequence[ComparedNumber]) -> list[str]:
    """What the marks at our numbers mean, and why some of them have no difference."""
    return [
        *_other_systems(numbers),
        *_stand_ins(numbers),
        *foreign(_shown_groups(numbers)),
        *_quantities(numbers),
        *_encoders(numbers),
    ]


def _other_systems(numbers: Iterable[ComparedNumber]) -> list[str]:
    """Notes about the rows of which the published number is of another system than ours."""
    found = {each.unlike: each.row.label for each in numbers if each.unlike}
    return [f"{OTHER_SYSTEM} {label}: {why}; no Δ" for why, label in found.items()]


def _shown_groups(numbers: Iterable[ComparedNumber]) -> Iterator[Group]:
    return (each.found.group for each in numbers if each.cell and each.found)


def _stand_ins(numbers: Iterable[ComparedNumber]) -> list[str]:
    """Notes about the suites whose scores stand in the place of those that the paper used."""
    marked = {each.metric.suite for each in numbers if each.stands_in and each.metric}
    return [
        f"* measured with the suite {STAND_INS[suite]}; the paper used the protocol of {suite}: "
        f"{CARDS[suite].protocol}"
        for suite in sorted(marked)
    ]


def _quantities(numbers: Iterable[ComparedNumber]) -> list[str]:
    shown = [each.measure for each in numbers if isinstance(each.measure, Quantity) and each.cell]
    return list(dict.fromkeys(quantity.note for quantity in shown))


def _encoders(numbers: Iterable[ComparedNumber]) -> list[str]:
    """A note about the encoder that stands in the place of those of the paper."""
    found = [each.wanted for each in numbers if each.wanted and each.wanted.published_encoder]
    names = dict.fromkeys(str(target.published_encoder) for target in found)
    if not found:
        return []
    return [f"Ours: on {found[0].encoder} in the place of {', '.join(names)}, so without Δ."]


def choice_notes(numbers: Iterable[ComparedNumber]) -> list[str]:
    """Notes about the numbers for which several groups of comparable trials were candidates."""
    return list(
        dict.fromkeys(
            f"{each.wanted}: {each.found.candidates} groups of comparable trials; shown is the one "
            f"with the best mean {DISPLAY.get(each.found.group.selects, each.found.group.selects)}"
            for each in numbers
            if each.found and each.found.candidates > 1
        )
    )


def filling_notes(table: ComparedTable, commands: Commands, encoder: str | None) -> list[str]:
    """How the gaps of a table are filled: one command, and what no command can fill."""
    gaps = [each for each in table.numbers if _is_gap(each)]
    possible = [each for each in gaps if each.wanted and not commands.obstacle(each.wanted)]
    command = commands.table(table.paper.paper, table.number, encoder)
    return [
        *([f"To fill: {command}"] if possible else []),
        *_without_command(table.numbers, commands),
    ]


def _is_gap(each: ComparedNumber) -> bool:
    """Whether a trial or an evaluation of one is missing."""
    if each.wanted is None or not each.is_measured:
        return False
    return each.found is None or each.foreign or bool(each.unmeasured)


def _without_command(numbers: Iterable[ComparedNumber], commands: Commands) -> Iterator[str]:
    """Notes: the rows that need something of the user's, and those that are only quoted."""
    reasons: dict[str, dict[str, None]] = defaultdict(dict)  # a set in the order of the table
    for each in numbers:
        if not each.is_measured or each.found:
            continue
        if each.wanted is None and each.value is not None:
            reasons["Quoted only, no method here"][each.row.label] = None
        elif each.wanted and (obstacle := commands.obstacle(each.wanted)):
            reasons[f"Not run by the command: {obstacle}"][each.row.label] = None
    return (f"{reason}: {'; '.join(labels)}" for reason, labels in sorted(reasons.items()))
