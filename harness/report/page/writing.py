"""Writes a report as a folder of static files; the same content gives the same bytes."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
from pydantic_core import to_json

from harness.errors import UserError
from harness.files import probe_writable
from harness.report.coverage import Gap
from harness.report.figures.specification import Figure
from harness.report.page.content import IN_A_FILE, StoredTrials, record_grids, table_grid
from harness.report.tables import Table
from harness.steps import Steps, unheard


@dataclass(frozen=True)
class ReportPage:
    """The content of a report."""

    title: str
    store: str
    """The place of the store, as a person may read it"""
    trials: StoredTrials
    tables: Sequence[Table]
    figures: Sequence[Figure]
    missing: Sequence[Gap]
    notes: Sequence[str] = ()
    """Sentences about what could not be drawn"""


START = "index.html"
"""The file to open"""
DATA = "data"
"""The folder of tables, figures and trials"""
_HERE = Path(__file__).parent
_MARK = b'<meta name="generator" content="harness report">'
"""A line of our own pages; another page is never replaced"""
_BEGUN = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
{_MARK.decode()}
<title>Not complete</title>
<p>This report is not complete: the command that writes it has not ended. Give it again.</p>
</html>
"""
"""The page until the rest is written"""


def write_report(page: ReportPage, folder: Path, steps: Steps = unheard) -> Path:
    """Write a report, and return the file to open.

    A report that is in the folder already is replaced. steps: hears how many files are written.
    Raises UserError for a folder with other files, and OSError when it cannot be written.
    """
    check_room(folder)
    shutil.rmtree(folder / DATA, ignore_errors=True)
    (folder / DATA).mkdir(parents=True)
    (folder / START).write_text(_BEGUN, encoding="utf-8")
    for source in sorted((_HERE / "static").iterdir()):
        shutil.copyfile(source, folder / source.name)
    results = [
        table_grid(f"table-{number}", table, page.trials)
        for number, table in enumerate(page.tables, 1)
    ]
    others = record_grids(page.trials.records)
    figures = [(f"figure-{number}", figure) for number, figure in enumerate(page.figures, 1)]
    grids = [*results, *(grid for _, grid in others)]
    total = len(grids) + len(figures) + -(-len(page.trials.records) // IN_A_FILE)
    contents = chain(
        ((grid.name, grid.data) for grid in grids),
        ((name, figure.page_data(page.trials.numbers)) for name, figure in figures),
        page.trials.files,
    )
    for done, (name, content) in enumerate(contents, 1):
        # A page from disk may load scripts, and may not fetch JSON.
        text = to_json(content, inf_nan_mode="null").decode()
        script = f"harnessReport.receive({json.dumps(name)}, {text});\n"
        (folder / DATA / f"{name}.js").write_text(script, encoding="utf-8")
        steps("writing files", done, total)
    words = {"page": page, "results": results, "others": others, "figures": figures}
    (folder / START).write_text(_filled(words), encoding="utf-8")
    return folder / START


def check_room(folder: Path) -> None:
    """Raises UserError for a folder with other files, and OSError when it cannot be written.

    It leaves nothing behind.
    """
    probe_writable(folder)
    start = folder / START
    own = start.is_file() and _MARK in start.read_bytes()
    if folder.exists() and any(folder.iterdir()) and not own:
        raise UserError(
            f"{folder} has other files in it; choose an empty folder, or one with an earlier report"
        )


def _filled(words: Mapping[str, Any]) -> str:
    """The page with these words in their places, all of them escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(START).render(words)
