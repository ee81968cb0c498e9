"""Tables as LaTeX: compiled by a real pdflatex."""

import csv
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from harness.report.formats import csv_text, html_table, markdown_text, rendered
from harness.report.matching import Commands
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.tables import Section, Table
from tests.report.conftest import MadeStore, Tags

DOCUMENT = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""
NASTY = 'a_b & 50% $x #1 {y} ~z ^w \\q <i> |p| "r" [s]* --set \\input{/etc/passwd} ± Δ ≈ ≠ † µ'


@pytest.fixture
def pdflatex() -> str:
    """The program; the tests are skipped without it, but never in CI."""
    program = shutil.which("pdflatex")
    if program is None and not os.environ.get("CI"):
        pytest.skip("there is no pdflatex here")
    assert program, "CI needs pdflatex; .ci/run installs it"
    return program


def compiled(pdflatex: str, folder: Path, text: str) -> str:
    """The log of pdflatex; it fails where a page is not made or a character is missing."""
    (folder / "table.tex").write_text(DOCUMENT % text, encoding="utf-8")
    command = [pdflatex, "-halt-on-error", "-interaction=nonstopmode", "table.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-3000:]
    assert (folder / "table.pdf").read_bytes().startswith(b"%PDF")
    assert "Missing character" not in (folder / "table.log").read_text("utf-8", "replace")
    return log


@pytest.mark.process
def test_tables_of_a_store_and_of_a_paper_compile(
    pdflatex: str, tmp_path: Path, store: MadeStore
) -> None:
    for score in (74.2, 75.1, 76.9):
        store.trial(score=score, device="NVIDIA H100 80GB_HBM3", commit="0123456789ab+")
        store.trial({"prompt": "[MASK] means_&"}, score=score - 9)
    for seed in (0, 1):
        for subset in (0, 1):
            fraction = {"label_fraction": 0.01, "subset": subset}
            store.trial(fraction, 70.0 + seed + subset, seed=seed, setting="sup")
    store.trial(score=70.0, protocol=1)
    papers = paper_tables(store.read(), load_paper("diffaug"), Commands(["simcse"], store.folder))
    text = rendered([*store.sheets(), *papers], "latex", 140).decode()
    compiled(pdflatex, tmp_path, text)
    for part in (
        r"\textbf{75.40$\pm$1.37}",
        "over n seeds",
        "selected on dev",
        "Welch",
        r"$\approx$",
        r"\textdagger{}",
        r"Hardware: NVIDIA H100 80GB\_HBM3; commit: 0123456789ab+.",
    ):
        assert part in text


@pytest.mark.process
def test_no_text_breaks_a_table_or_opens_a_file(pdflatex: str, tmp_path: Path) -> None:
    lines = [[NASTY, "1"], ["[", "2"], ["*", "3"]]
    sheet = Table(NASTY, [NASTY, "n"], 1, [Section(NASTY, lines)], NASTY, [NASTY], dict)
    log = compiled(pdflatex, tmp_path, rendered([sheet], "latex", 140).decode())
    assert "passwd" not in log


# Texts of others in the formats of a table stay texts.


def test_no_cell_of_csv_is_a_formula() -> None:
    """Other cells stay as they are."""
    for text in ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"):
        lines = list(csv.reader(io.StringIO(csv_text(["name", "n"], [[text, -1.5]]), newline="")))
        assert lines == [["name", "n"], [f"'{text}", "-1.5"]]
    texts = ["-0.5", "+3", "plain", "a=b", "'quoted'"]
    assert [*csv.reader(io.StringIO(csv_text(["name"], [texts])))][1] == texts
    assert csv_text(["name"], [["\r=1"]]) == "name\n\\r=1\n", "a return ends no line"


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


@pytest.mark.parametrize(
    "text",
    ["\x1b]0;y\a", "a\x1b[2J", "a\x9b2J\x7f", "a\u202eb", "\ud800",
     '<script>alert("x")</script>&'],
)  # fmt: skip
def test_no_format_has_orders_to_a_terminal_or_to_a_browser(text: str) -> None:
    lines = [Section(text, [[text]])]
    sheet = Table(text, [text], 1, lines, text, [text], lambda: pa.table({}))
    html = html_table(sheet)
    found = Tags(html)
    assert "script" not in [tag for tag, _ in found.tags]
    assert "<" not in text or found.text.count(text) >= 5
    said, terminal = (rendered([sheet], kind, 80).decode() for kind in ("json", "terminal"))
    assert json.loads(said)[0]["title"] == text
    for shown in (said, html, terminal):
        assert shown.replace("\n", "").isprintable()
