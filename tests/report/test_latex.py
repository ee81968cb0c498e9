"""Tables as LaTeX: compiled by a real pdflatex."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.report.formats import rendered
from harness.report.matching import Commands
from harness.report.paper_tables import paper_tables
from harness.report.store_tables import store_tables
from harness.report.tables import Section, Table
from harness.trials.store import Store

AddTrial = Callable[..., str]

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
    found = shutil.which("pdflatex")
    if found is None and not os.environ.get("CI"):
        pytest.skip("there is no pdflatex here")
    assert found, "CI needs pdflatex; .ci/run installs it"
    return found


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
    pdflatex: str, tmp_path: Path, store: Store, add_trial: AddTrial
) -> None:
    for score in (74.2, 75.1, 76.9):
        add_trial(score=score, device="NVIDIA H100 80GB_HBM3", commit="0123456789ab+")
        add_trial({"prompt": "[MASK] means_&"}, score=score - 9)
    for seed in (0, 1):
        for subset in (0, 1):
            fraction = {"label_fraction": 0.01, "subset": subset}
            add_trial(fraction, 70.0 + seed + subset, seed=seed, setting="sup")
    add_trial(score=70.0, protocol=1)
    reading = store.read()
    sheets = [
        *store_tables(reading, store.folder),
        *paper_tables(reading, "diffaug", Commands(["simcse"], store.folder)),
    ]
    text = rendered(sheets, "latex", 140).decode()
    compiled(pdflatex, tmp_path, text)
    for part in (
        r"\textbf{75.40$\pm$1.37}",
        "over n seeds",
        "selected on dev",
        r"Hardware: NVIDIA H100 80GB\_HBM3; commit: 0123456789ab+.",
        "Welch",
        r"$\approx$",
        r"\textdagger{}",
    ):
        assert part in text


@pytest.mark.process
def test_no_text_breaks_a_table_or_opens_a_file(pdflatex: str, tmp_path: Path) -> None:
    lines = [[NASTY, "1"], ["[", "2"], ["*", "3"]]
    sheet = Table(NASTY, [NASTY, "n"], 1, [Section(NASTY, lines)], NASTY, [NASTY], dict)
    log = compiled(pdflatex, tmp_path, rendered([sheet], "latex", 140).decode())
    assert "passwd" not in log
