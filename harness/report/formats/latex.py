"""A sheet as a LaTeX table (booktabs)."""

from collections.abc import Iterable

from harness.errors import visible
from harness.report.sheets.rows import Bold, SheetLine
from harness.report.sheets.sheet import Section, Sheet

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after \\ it would open that command's optional argument
    "*": "{*}",  # after \\ it would be that command's star
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "†": r"\textdagger{}",
}


def escape_latex(text: str) -> str:
    """The text with every special character of LaTeX escaped."""
    escaped = "".join(
        _SPECIAL.get(character, character) for character in visible(" ".join(text.split()))
    )
    return escaped.replace("--", "-{}-")  # an option's two hyphens, not a dash


def latex_text(sheet: Sheet) -> str:
    """A `table` environment with its caption above; only comments when the sheet has no columns."""
    if not sheet.columns:
        return "".join(f"% {' '.join(note.split())}\n" for note in sheet.notes)
    columns = "l" * sheet.text_columns + "r" * (len(sheet.columns) - sheet.text_columns)
    caption = " ".join(
        part for part in (f"{sheet.title}." if sheet.title else "", sheet.caption) if part
    )
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{escape_latex(caption)}}}",
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _line(sheet.columns),
            *(line for section in sheet.sections for line in _section(section, len(sheet.columns))),
            r"\bottomrule",
            r"\end{tabular}",
            *(
                f"\\par\\footnotesize {escape_latex(note)}"
                for note in (sheet.legend(), *sheet.notes)
                if note
            ),
            r"\end{table}",
            "",
        ]
    )


def _section(section: Section, width: int) -> list[str]:
    heading = []
    if section.name:
        name = f"\\emph{{{escape_latex(section.name)}}}"
        heading = [f"\\multicolumn{{{width}}}{{l}}{{{name}}} \\\\"]
    return [r"\midrule", *heading, *map(_line, section.lines)]


def _line(cells: Iterable[str] | SheetLine) -> str:
    return " & ".join(map(_cell, cells)) + r" \\"


def _cell(text: str) -> str:
    escaped = escape_latex(text)
    return f"\\textbf{{{escaped}}}" if isinstance(text, Bold) else escaped
