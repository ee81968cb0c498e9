"""Texts of others in the formats of a table stay texts."""

import csv
import io
import json

import pyarrow as pa
import pytest

from harness.report import formats
from harness.report.formats import escape_latex, markdown_text, rendered
from harness.report.tables import Table


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"])
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    lines = list(csv.reader(io.StringIO(formats(["name", "n"], [[text, -1.5]]), newline="")))
    assert lines == [["name", "n"], [f"'{text}", "-1.5"]]


def test_a_carriage_return_ends_no_line_of_csv() -> None:
    assert formats(["name"], [["\r=1"]]) == "name\n\\r=1\n"


@pytest.mark.parametrize("text", ["-0.5", "+3", "plain", "a=b", "", "'quoted'"])
def test_other_cells_of_csv_stay_as_they_are(text: str) -> None:
    lines = list(csv.reader(io.StringIO(formats(["name"], [[text]]))))
    assert lines[1] in ([text], [])


@pytest.mark.parametrize(
    "text", ["[x](javascript:alert)", "<script>", "a|b", "`a`", "**a**", "&lt;", "~~a~~", "a\nb"]
)
def test_markdown_is_escaped(text: str) -> None:
    shown = markdown_text(Table(text, [], 0, [], "", [], dict))
    kept = shown.strip().removeprefix("**").removesuffix("**")
    plain = ""
    characters = iter(kept)
    for character in characters:
        assert character not in "[]<>|`*&~\n"
        plain += next(characters) if character == "\\" else character
    assert plain == text.replace("\n", " ")


def test_orders_to_a_terminal_are_escaped_in_latex() -> None:
    assert escape_latex("\x1b{}") == r"\textbackslash{}x1b\{\}"


@pytest.mark.parametrize("text", ["a\x1b[2J", "a\x9b2J\x7f", "a\u202eb", "\ud800"])
def test_json_and_html_have_no_orders_to_a_terminal(text: str) -> None:
    sheet = Table(text, [], 0, [], "", [], lambda: pa.table({}))
    json_text, html = (rendered([sheet], each, 80).decode() for each in ("json", "html"))
    assert json.loads(json_text)[0]["title"] == text
    for shown in (json_text, html):
        assert shown.replace("\n", "").isprintable()
