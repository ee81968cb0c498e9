"""The documentation as a site: it builds without a warning and without the network."""

import html
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from playwright import sync_api as playwright
from pydantic import Field, FilePath

from harness import plugin
from harness.plugin import registry
from harness.plugin.fields import described_fields
from tests.browser import chromium
from tests.checkout import CHECKOUT, module_of
from tests.programs import run_module

LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
"""A tag that makes a browser load something from elsewhere"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    words = ("build", "--strict", "--quiet", "--site-dir", folder)
    done = run_module("mkdocs", *words, environment=os.environ, folder=CHECKOUT)
    assert done.code == 0, done.out + done.err
    return folder


@pytest.mark.slow
@pytest.mark.process
def test_every_field_of_every_method_is_on_its_page(site: Path) -> None:
    for name in registry.names():
        rows = dict(_rows((site / "methods" / f"{name}.html").read_text(encoding="utf-8")))
        fields = registry.load(name).config_type.model_fields
        assert set(rows) == set(fields), name
        for field, shown in rows.items():
            description = fields[field].description or ""
            assert description.replace("`", "") in shown, (name, field)


@pytest.mark.slow
@pytest.mark.process
def test_every_document_is_a_page_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    documents = (CHECKOUT / "docs").rglob("*.md")
    names = {path.relative_to(CHECKOUT / "docs").with_suffix(".html") for path in documents}
    assert {name.as_posix() for name in names} <= pages
    assert {"index.html", "benchmarks.html", "contributing.html", "changelog.html"} <= pages
    for page in pages:
        assert not LOADED.findall((site / page).read_text(encoding="utf-8")), page


@pytest.mark.slow
@pytest.mark.process
def test_the_search_field_works_from_the_disk(site: Path) -> None:
    browser = chromium()
    with playwright.sync_playwright() as tool:
        page = tool.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(f"{site.as_uri()}/index.html?q=pruner")
        page.wait_for_selector(".md-search-result__link[href$='search.html']", state="attached")


def _rows(page: str) -> Iterator[tuple[str, str]]:
    """(field, the text of its row) for every row of the tables of a method's page."""
    for row in re.findall(r"<tr>\s*<td.*?</tr>", page, re.DOTALL):
        cells = [html.unescape(re.sub("<[^>]+>", "", cell)) for cell in row.split("</td>")]
        yield cells[0].strip(), " ".join(cells[1:])


class _Shown(plugin.TrainingConfig):
    """One field of every kind."""

    batch_size: int = Field(8, ge=2)
    pooler: Literal["tanh", "linear"] = Field("tanh", description="head | none")
    vectors: FilePath | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    doubled: int = Field(default_factory=lambda given: 2 * given["batch_size"])
    published: ClassVar = {("sup", "*"): {"batch_size": 512}, ("sup", "large"): {"share": 1e-5}}


def test_a_row_of_a_field_table() -> None:
    table = module_of("docs/fields.py").field_table(described_fields(_Shown)).splitlines()
    for row in (
        "| `batch_size` | `int` | `8` | sup, `*`: `512` | contrastive batch, in sentences or "
        "triplets | at least 2 |",
        "| `pooler` | `tanh` or `linear` | `tanh` |  | head \\| none |  |",
        "| `vectors` | file or none | none |  |  |  |",
        "| `share` | `float` | `0.5` | sup, large: `1e-05` |  | above 0, at most 1 |",
        "| `doubled` | `int` | `16` (it depends on other fields) |  |  |  |",
    ):
        assert row in table
