"""Cost of a report of many trials: `harness report`, and the page in a browser.

The store is one of `store.py`. The report is written in a new process, as a user meets it: wall and
processor seconds, and the size of the folder. The page is opened from disk in headless Chromium,
each time in a new browser profile. It counts as usable when the first table can be sorted: the time
from the start of the loading until its first rows are there. A click that sorts, a filter, and a
score that is opened (which loads a file) are timed in the page until their result is there.

    python benchmarks/report.py [--trials 10000] [--rounds 5]
"""

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from store import REPOSITORY, fill

from harness.trials.store import Store

TABLE = "[data-grid=table-1]"


def main() -> None:
    """Print the size and the times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, out = Path(folder) / "trials", Path(folder) / "report"
        fill(Store(store), options.trials)
        write(store, out)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 2**20
        print(f"{size:.0f} MiB in {sum(1 for _ in out.rglob('*'))} files")
        with sync_playwright() as tool:
            # Chromium's sandbox does not start as root in a container; the page is our own.
            program = shutil.which("chromium") or shutil.which("google-chrome")
            browser = tool.chromium.launch(executable_path=program, args=["--no-sandbox"])
            rounds = [times(browser, out) for _ in range(options.rounds)]
            browser.close()
    for name in rounds[0]:
        found = sorted(each[name] for each in rounds)
        print(f"{name}: median {statistics.median(found):.2f} s, most {found[-1]:.2f} s")


def write(store: Path, out: Path) -> None:
    """Write the report, and print what that took."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = ["harness", "report", "--store", str(store), "--out", str(out)]
    subprocess.run([sys.executable, "-m", *command], cwd=REPOSITORY, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"written in {wall:.1f} s, {cpu:.1f} CPU s")


def times(browser: Browser, out: Path) -> dict[str, float]:
    """Seconds until the page is usable and drawn, and for what a reader does with it."""
    page = browser.new_page()
    start = time.perf_counter()
    page.goto((out / "index.html").as_uri(), wait_until="commit")
    page.wait_for_selector(f"{TABLE} tbody tr")
    usable = time.perf_counter() - start
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    drawn = time.perf_counter() - start
    found = {"usable": usable, "all is drawn": drawn, **actions(page)}
    page.close()
    return found


def actions(page: Page) -> dict[str, float]:
    """Seconds of a sort and of a filter of the largest table, and of a score that is opened."""
    sort = "document.querySelector('[data-grid=trials] [data-column=\"7\"]').click()"
    search = (
        "const box = document.querySelector('[data-grid=trials] input'); box.value = 'method7'; "
        "box.dispatchEvent(new Event('input'))"
    )
    score = (
        f"document.querySelector('{TABLE} [data-cell]').click(); const opened = 'dialog[open]'; "
        "while (!document.querySelector(opened)) await new Promise(requestAnimationFrame)"
    )
    return {
        "sort of all trials": in_page(page, sort),
        "filter of all trials": in_page(page, search),
        "a score is opened": in_page(page, score),
    }


def in_page(page: Page, action: str) -> float:
    """Seconds that an action takes, with the layout that it needs."""
    timed = (
        f"async () => {{ const start = performance.now(); {action}; "
        "document.body.offsetHeight; return performance.now() - start; }"
    )
    return float(page.evaluate(timed)) / 1000


if __name__ == "__main__":
    main()
