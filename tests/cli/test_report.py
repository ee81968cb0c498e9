"""`harness report` of a store of known numbers, opened from disk in a real Chromium."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import PROTOCOL, cli
from harness.trials.record import Record
from harness.trials.store import Store
from tests.browser import chromium
from tests.cli.conftest import Harness, Shown, check_sentence

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, pytest.mark.process]
Page = Any
Report = Callable[..., Path]
Opened = Callable[..., Page]
TABLE = "[data-grid=table-1]"
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
SCRIPT = "<script>globalThis.ran = true</script>"
"""The name of a method that would run, were it markup"""
IMAGE = '"><img src=x onerror="globalThis.ran = true">'
LOG = f"the loss is not finite\nThe last lines of its output:\n  </script>{SCRIPT}"
MANY = 60
"""Rows of untrained encoders, which are more than a page of a table has"""


def fill(folder: Path) -> None:
    """Write the trials: three seeds of two methods, a search, a failure, and many encoders."""
    store = Store(folder)
    for number, values in enumerate(_trials()):
        store.write(Record(**{"key": f"{number:032x}", **_ALIKE, **values}))


def _trials() -> Iterator[dict[str, Any]]:
    for method, score in (("simcse", 75.0), (SCRIPT, 70.0)):
        for seed in range(3):
            scores = dict.fromkeys(TASKS, score + 2 * seed)
            yield {"method": method, "seed": seed, "test": scores, "search": "5ea4c4"}
    for rate in (1e-5, 2e-5, 5e-5, 1e-4):
        for temperature in (0.05, 0.1):
            yield {
                "role": "search",
                "search": "5ea4c4",
                "configuration": {"learning_rate": rate, "temperature": temperature},
                "dev": {"stsb-dev": 70 + 1e5 * rate + temperature},
                "history": _history(rate),
            }
    yield {"status": "failed", "seed": 9, "encoder": IMAGE, "reason": LOG, "dev": {}, "test": {}}
    for number in range(MANY):
        # Their order as texts differs from that of their scores.
        scores = dict.fromkeys(TASKS, float((number * 37) % MANY))
        encoder = f"encoder-{number:02}"
        yield {"method": "pooling", "encoder": encoder, "test": scores, "steps": 0}


def _history(rate: float) -> list[dict[str, Any]]:
    points = ((step, step * rate * 1e4) for step in (10, 20, 30))
    return [
        {"step": step, "stage": "contrastive", "metric": metric, "value": value}
        for step, value in points
        for metric in ("dev", "loss/contrastive")
    ]


_ALIKE: dict[str, Any] = {
    "status": "finished",
    "role": "final",
    "method": "simcse",
    "setting": "unsup",
    "encoder": "bert-base-uncased",
    "seed": 0,
    "configuration": {"learning_rate": 3e-5, "batch_size": 64},
    "selected_by": "stsb-dev",
    "dev": {"stsb-dev": 80.0},
    "steps": 100,
    "wall_seconds": 1800.0,
    "training_seconds": 1500.0,
    "host": "host-1",
    "device": "Test GPU",
    "commit": "abc123",
    "versions": {"torch": "2.9"},
    "protocol": PROTOCOL,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "store"
    fill(folder)
    return folder


@pytest.fixture(scope="module")
def report(store: Path) -> Callable[..., Path]:
    """report(option, ...): the folder of the report of the store with these options."""
    made: dict[tuple[str, ...], Path] = {}

    def write(*options: str) -> Path:
        if options not in made:
            folder = store.parent / f"report-{len(made)}"
            assert run("report", *options, "--store", str(store), "--out", str(folder)) == 0
            made[options] = folder
        return made[options]

    return write


def run(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["harness", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    with playwright.sync_playwright() as tool:
        # Chromium's sandbox does not start as root in a container; the page is our own.
        browser = tool.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Page]]:
    """opened(folder, ...): the page, drawn by Playwright; it says nothing, and asks for nothing."""
    heard: list[str] = []
    pages = []

    def open_page(folder: Path, **options: Any) -> Page:
        page, inside = browser.new_page(**options), folder.resolve().as_uri()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda sent: sent.url.startswith(inside) or heard.append(sent.url))
        page.goto(f"{inside}/index.html")
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        assert page.evaluate("globalThis.ran") is None
        page.close()
    assert heard == []


def column(page: Page, number: int) -> list[str]:
    """The texts of a column of the first table, as far as its page shows them."""
    cells = f"{TABLE} tbody tr > :nth-child({number})"
    return [text.strip() for text in page.locator(cells).all_text_contents()]


def test_the_numbers_are_those_of_harness_table(store: Path, report: Report, shown: Shown) -> None:
    records = json.loads(shown("table", "--store", store, "--format", "json"))[0]["records"]
    wanted = {
        (row["method"], row["encoder"], row["metric"]): (row["mean"], row["n"])
        for row in records
        if row["split"] == "test" and row["metric"] in ("sts12", "avg")
    }
    grid = _data(report() / "data" / "table-1.js", "{")
    places = {"sts12": grid["columns"].index("STS12"), "avg": grid["columns"].index("Avg.")}
    numbers = {
        (row[0], row[2], metric): (row[place]["value"], len(row[place]["score"]["trials"]))
        for row in grid["sections"][0]["rows"]
        for metric, place in places.items()
    }
    assert numbers == wanted
    assert numbers["simcse", "bert-base-uncased", "avg"] == (77.0, 3)


def test_rows_are_sorted_by_a_heading_filtered_and_come_in_pages(
    report: Report, opened: Opened
) -> None:
    page = opened(report())
    page.set_viewport_size({"width": 1280, "height": 800})
    assert len(column(page, 1)) == 50
    page.locator(f"{TABLE} button", has_text="Next").click()
    assert len(column(page, 1)) == MANY + 2 - 50
    headings = page.locator(f"{TABLE} thead tr > *").all_text_contents()
    button = page.locator(f"{TABLE} thead button", has_text="Avg.")

    def numbers() -> list[float]:
        return [float(text.split("±")[0]) for text in column(page, headings.index("Avg.") + 1)]

    button.click()
    assert numbers() == sorted(numbers(), reverse=True)
    assert numbers()[0] == 77
    assert button.locator("..").get_attribute("aria-sort") == "descending"
    button.press("Enter")  # by keyboard
    assert numbers()[:3] == [0, 1, 2]
    page.locator(f"{TABLE} input[type=search]").fill("pooling encoder-07")
    assert column(page, 3) == ["encoder-07"]
    assert page.locator(f"{TABLE} [role=status]").text_content() == "1 of 62 rows"


def test_a_score_shows_its_trials_configuration_and_command(report: Report, opened: Opened) -> None:
    """A failure shows its log as text."""
    page = opened(report())
    page.locator(f"{TABLE} input[type=search]").fill("simcse")
    score = page.locator(f"{TABLE} tbody button").last
    assert score.text_content() == "77.00±2.00"
    score.press("Enter")
    dialog = page.locator("dialog[open]")
    text = dialog.inner_text()
    trials = [row.split("\t") for row in dialog.locator("tbody").first.inner_text().split("\n")]
    assert [row[:2] for row in trials] == [["0", "75.0000"], ["1", "77.0000"], ["2", "79.0000"]]
    assert "learning_rate\t3e-05" in text
    assert "harness run simcse --encoder bert-base-uncased --seed 1" in text
    assert "harness show" in text
    page.keyboard.press("Escape")
    assert dialog.count() == 0
    assert score.evaluate("element => element === document.activeElement")
    failures = page.locator("[data-grid=failures] tbody tr")
    assert failures.count() == 1
    assert "the loss is not finite" in failures.inner_text()
    failures.locator("button").click()
    assert LOG in page.locator("dialog[open] pre").first.text_content()
    assert "harness sweep" not in page.locator("#missing").inner_text()
    assert "1 failed trial of simcse unsup" in page.locator("#missing").inner_text()


def test_figures_answer_to_keyboard_and_pointer(report: Report, opened: Opened) -> None:
    page = opened(report())
    curves = page.locator("figure").filter(has_text="curves of")
    plot = curves.locator(".plot").first
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert "metric: dev" in curves.locator("output").text_content()
    page.keyboard.press("Enter")
    assert "simcse unsup" in page.locator("dialog[open] h2").text_content()
    page.keyboard.press("Escape")
    assert curves.locator(".panel-head span").all_text_contents() == ["dev", "loss contrastive"]
    assert curves.locator(".plot").last.locator("polyline.line").count() == 8
    # A reader zooms by buttons and keys, and a click shows a trial.
    panel = curves.locator(".panel").first
    ticks = panel.locator(".plot .tick")
    whole = ticks.all_text_contents()
    panel.get_by_role("button", name="Zoom in").click()
    near = ticks.all_text_contents()
    assert near != whole
    panel.get_by_role("button", name="Zoom out").click()
    assert ticks.all_text_contents() == whole
    panel.locator(".plot").press("+")
    assert ticks.all_text_contents() == near
    panel.locator(".plot").press("-")
    assert ticks.all_text_contents() == whole
    panel.locator(".marker").last.click()
    assert "simcse unsup" in page.locator("dialog[open] h2").text_content()
    page.keyboard.press("Escape")
    curves.locator("summary").click()
    curves.locator("tbody tr").first.wait_for()  # the table is written when it is opened
    assert curves.locator("tbody tr").count() == 48  # 8 trials, 3 steps, 2 curves


def test_published_values_are_shown_on_demand(report: Report, opened: Opened) -> None:
    page = opened(report("--paper", "diffaug"))
    table = page.locator("#results article").first
    published = table.locator(".published").last
    assert table.locator(".score").count() > 0
    assert not published.is_visible()
    table.locator("input[type=checkbox]").check()
    assert published.is_visible()
    assert "harness sweep --paper diffaug --table 1" in page.locator("#missing").inner_text()


@pytest.mark.parametrize(("options", "scheme"), [((), "dark"), (("--paper", "diffaug"), "light")])
def test_it_conforms_to_wcag_aa(
    report: Report, opened: Opened, options: tuple[str, ...], scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened(report(*options), color_scheme=scheme)
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    # It would read the style sheet a second time, which the page's policy forbids.
    rules = {"preload": False, "runOnly": {"type": "tag", "values": tags}}
    page_found = axe.run(page, options=rules)
    page.locator(".score").first.click()
    page.wait_for_selector("dialog[open]")
    dialog_found = axe.run(page, options=rules)
    for found in (page_found, dialog_found):
        assert found.violations_count == 0, found.generate_report()


def test_it_fits_a_phone_and_paper(report: Report, opened: Opened) -> None:
    page = opened(report(), viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator(f"{TABLE} .scrolls").inner_text() == "This table scrolls sideways."
    scores = page.locator(f"{TABLE} tbody .score").first.bounding_box()
    assert scores is not None
    assert scores["x"] + scores["width"] <= 390, "the first scores are seen without scrolling"
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.locator(f"{TABLE} table").is_visible()


def test_the_same_store_gives_the_same_bytes(store: Path, tmp_path: Path, report: Report) -> None:
    first, again = report(), tmp_path / "again"
    for _ in range(2):  # the second replaces the first
        assert run("report", "--store", str(store), "--out", str(again)) == 0
    files = {path.relative_to(first) for path in first.rglob("*")}
    assert files == {path.relative_to(again) for path in again.rglob("*")}
    for name in files:
        assert (first / name).is_dir() or (first / name).read_bytes() == (again / name).read_bytes()


def test_a_sweep_has_all_trials_of_its_rows_and_its_failures(tmp_path: Path, shown: Shown) -> None:
    """A seed that was run alone stands in the row of the sweep; no other trial is in the page."""
    store = Store(tmp_path / "store")
    fill(store.folder)
    seeds = [each for each in store.read().records() if each.method == "simcse" and each.test]
    alone = replace(seeds[0], key="f" * 32, seed=7, search="", test={"sts12": 50.0, "avg": 50.0})
    failed = replace(alone, key="e" * 32, seed=8, status="failed", test={}, dev={}, reason="of it")
    other = replace(failed, key="d" * 32, method="esimcse", search="0the4", reason="another")
    for each in (alone, replace(failed, search="5ea4c4"), other):
        store.write(each)
    folder = tmp_path / "report"
    shown("report", "--sweep", "5ea4c4", "--store", store.folder, "--out", folder)
    trials = _data(folder / "data" / "trials-0.js", "[")
    grids = [_data(path, "{") for path in (folder / "data").glob("table-*.js")]
    rows = [row for grid in grids for section in grid["sections"] for row in section["rows"]]
    scores = [cell["score"] for row in rows for cell in row if "score" in cell]
    draws = [
        (trials[number]["seed"], value)
        for score in scores
        for number, value in zip(score["trials"], score["values"], strict=True)
    ]
    assert (7, 50.0) in draws
    assert {row[0] for row in rows} == {"simcse", SCRIPT}
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "16 records" in page
    assert "1 failed trial of simcse unsup bert-base-uncased" in page
    assert {each["reason"] for each in trials} == {"", "of it"}
    assert "another" not in page


def _data(path: Path, start: str) -> Any:
    """The content of a file of data of the page."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text[text.index(start) : text.rindex({"[": "]", "{": "}"}[start]) + 1])


def test_files_of_somebody_else_stay(
    store: Path, tmp_path: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that was interrupted is written anew."""
    words = ("report", "--store", store, "--out", tmp_path / "taken")
    taken = tmp_path / "taken"
    page = "<!doctype html>\n<title>My own page</title>\n"
    for files in ({"thesis.tex": ""}, {"index.html": page, "data/numbers.csv": ""}):
        for name, text in files.items():
            (taken / name).parent.mkdir(parents=True, exist_ok=True)
            (taken / name).write_text(text)
        check_sentence(harness(*words), "has other files in it")
        left = {str(path.relative_to(taken)): path for path in taken.rglob("*.*")}
        assert {name: path.read_text() for name, path in left.items()} == files
        shutil.rmtree(taken)
    write = Path.write_text

    def interrupted(path: Path, *rest: Any, **options: Any) -> int:
        if path.suffix == ".js":
            raise KeyboardInterrupt
        return write(path, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", interrupted)
        assert harness(*words).code != 0
    assert "This report is not complete" in (taken / "index.html").read_text()
    assert harness(*words).code == 0
    assert "not complete" not in (taken / "index.html").read_text()
