"""Sheets as terminal text, Markdown, CSV, LaTeX and Parquet."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli.table import table
from harness.errors import UserError
from harness.report.formats import escape_latex, html_table, rendered
from harness.report.matching import Commands
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.store_tables import store_tables
from tests.report.conftest import MadeStore, Tags

FORMATS = ("terminal", "markdown", "latex", "csv", "json", "parquet")


@pytest.fixture
def filled(store: MadeStore) -> MadeStore:
    for score in (74.2, 75.1, 76.9):
        store.trial(score=score)
    pooled = {"pooling": "cls"}
    store.trial(method="pooling", configuration=pooled, score=60.0, steps=0)
    return store


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a_b & 50% $x #1 {y} ~z ^w \\q", r"a\_b \& 50\% \$x \#1 \{y\} \textasciitilde{}z "
         r"\textasciicircum{}w \textbackslash{}q"),
        ("75.00±0.10 <Δ>", r"75.00$\pm$0.10 \textless{}$\Delta$\textgreater{}"),
        ("[CLS]", "{[}CLS]"),  # a line that begins with [ would be an argument of \\
        ("--set", "-{}-set"),
        ("\x1b{}", r"\textbackslash{}x1b\{\}"),  # an order to a terminal
    ],
)  # fmt: skip
def test_every_latex_special_is_escaped(text: str, escaped: str) -> None:
    assert escape_latex(text) == escaped


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 120, 140])
def test_the_terminal_table_loses_no_digit_and_breaks_no_word(
    filled: MadeStore, width: int
) -> None:
    for sheet in (
        *filled.sheets(),
        *paper_tables(filled.read(), load_paper("diffaug"), Commands(["simcse"], Path())),
    ):
        text = rendered([sheet], "terminal", width).decode()
        for line in (line for section in sheet.sections for line in section.lines):
            for word in " ".join(line).replace("±", " ±").split():
                assert word in text


def test_at_80_columns_the_averages_come_first(filled: MadeStore) -> None:
    [sheet, *_] = paper_tables(
        filled.read(), load_paper("diffaug"), Commands(["simcse"], filled.folder)
    )
    text = rendered([sheet], "terminal", 80).decode()
    table = text[: text.index("Spearman x100")].splitlines()
    assert max(map(len, table)) <= 80
    headings = [line.split() for line in table if line.startswith("#")]
    assert len(headings) > 1, "the table has blocks"
    assert headings[0][:3] == ["#", "n", "Avg."]
    tasks = [word for line in headings for word in line if word not in ("#", "n")]
    assert sorted(tasks) == sorted(map(str, sheet.columns[3:]))


def test_json_and_csv_hold_the_same_tidy_rows(filled: MadeStore) -> None:
    sheets = paper_tables(filled.read(), load_paper("diffaug"), Commands(["simcse"], filled.folder))
    records = [row for made in json.loads(rendered(sheets, "json", 140)) for row in made["records"]]
    rows = list(csv.DictReader(io.StringIO(rendered(sheets, "csv", 140).decode())))
    cells = (15 + 9) * 8, 2 * 6 * 4, 10 * 2, 3 * 2, 6 * 3, 5 * 3  # 1 and 6, 2 and 7, 3, 4, 5, 8
    released = [row for row in rows if row["group"] == "Released checkpoints, evaluated here"]
    assert len(released) == 4 * 8 + 3  # two of SimCSE, PromptBERT, DiffCSE in 1; SimCSE in 2, 3, 7
    assert len(records) == len(rows) == sum(cells) + len(released)
    [(average, record)] = [
        (row, record)
        for row, record in zip(rows, records, strict=True)
        if (row["label"], row["column"], row["n"]) == ("SimCSE", "Avg.", "3")
    ]
    assert record["delta"] == float(average["delta"]) == pytest.approx(75.4 - 76.25)
    assert record["published"] == float(average["published"]) == 76.25
    assert record["std"] == pytest.approx(float(average["std"]))
    assert record["keys"].split() == [f"{number:032x}"[:12] for number in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_the_same_store_gives_the_same_bytes(filled: MadeStore, format: str) -> None:
    def both() -> bytes:
        reading = filled.read()
        own = rendered(store_tables(reading, filled.folder), format, 140)
        return own + rendered(
            paper_tables(reading, load_paper("diffaug"), Commands(["simcse"], filled.folder)),
            format,
            140,
        )

    before = both()
    filled.compact(at_least=2)
    assert both() == before


def test_the_verb_writes_a_file(filled: MadeStore, tmp_path: Path) -> None:
    table(store=filled.folder, format="parquet", output=tmp_path / "table.parquet")
    assert pq.read_table(tmp_path / "table.parquet").num_rows == 2 * 11
    with pytest.raises(UserError, match=r"missing/table\.md cannot be written"):
        table(store=filled.folder, format="markdown", output=tmp_path / "missing" / "table.md")


def test_html_has_captions_and_scopes(filled: MadeStore) -> None:
    (sheet,) = filled.sheets()
    page = html_table(sheet)
    parser = Tags(page)
    assert [tag for tag, _ in parser.tags].count("caption") == 1
    scopes = [attributes.get("scope") for tag, attributes in parser.tags if tag == "th"]
    assert (scopes.count("col"), scopes.count("row")) == (14, 2)
    cells = [attributes["data-cell"] for _, attributes in parser.tags if "data-cell" in attributes]
    assert cells[-1] == "2.avg"
    assert len(cells) == 2 * 10
    assert "75.40±1.37" in parser.text
    assert "http" not in page


def test_json_and_parquet_have_the_score_of_each_trial(store: MadeStore, filled: MadeStore) -> None:
    sheets = filled.sheets()
    (table_,) = json.loads(rendered(sheets, "json", 140))
    rows = {(row["method"], row["metric"]): row for row in table_["records"]}
    trials = rows["simcse", "avg"]["trials"]
    assert [(each["seed"], each["value"]) for each in trials] == [(0, 74.2), (1, 75.1), (2, 76.9)]
    records = pq.read_table(pa.BufferReader(rendered(sheets, "parquet", 140)))
    assert records.to_pylist() == table_["records"]
    store.trial(dev={"stsb-dev": float("nan")})
    assert b"NaN" not in rendered(filled.sheets(), "json", 140)
