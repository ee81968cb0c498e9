"""Everything from nothing: make an environment, install, and run the quickstart sweep or the tests.

    python3 bootstrap.py quickstart [sweep options]    # the sweep of the embedded default
    python3 bootstrap.py quick [pytest arguments]      # lint, the import rule, the quick tests
    python3 bootstrap.py test [pytest arguments]       # lint, the import rule, types, all tests

It needs Python 3.11 or newer and a package registry. It installs into `.venv` beside this file, and
again when `pyproject.toml` or `constraints.txt` has changed.
"""

from __future__ import annotations  # an older Python gets as far as its sentence in `main`

import hashlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections import deque
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
KEEPING_BYTECODE = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
"""Without bytecode, every process compiles some four thousand modules again: 12 seconds each"""
UNWARNED = ("--disable-pip-version-check", "--no-warn-script-location", "--root-user-action=ignore")
"""The options with which pip gives no advice"""
PART = re.compile(r"Progress (\d+) of (\d+)")
"""What pip says of a file that it downloads, in bytes"""
SIZE = re.compile(r"Downloading \S+\.(?:whl|zip|gz) \(([\d.]+) (bytes|kB|MB|GB)\)")
"""What pip says of a file of a package, with its size"""
MEGABYTES = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}
QUICK_TESTS = "not slow and not process"
"""The tests (by marker) that are short and start neither a process nor Ray"""


def run(*command: str | Path) -> None:
    """Run a command in the checkout; stop with its exit code when it fails."""
    print("+", *[str(part).removeprefix(f"{HERE}{os.sep}") for part in command], flush=True)
    parts = [str(part) for part in command]
    code = subprocess.run(parts, cwd=HERE, env=KEEPING_BYTECODE, check=False).returncode
    if code:
        sys.exit(code)


def install() -> None:
    """Make `.venv` with the tested versions, unless it has them already."""
    wanted = hashlib.sha256(
        b"".join((HERE / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    )
    marker = ENVIRONMENT / "installed"
    if marker.exists() and marker.read_text() == wanted.hexdigest():
        return
    torch, locked = torch_requirement(), (HERE / "constraints.txt").read_text().count("==")
    print(f"Installing into {ENVIRONMENT}\n[1/5] the environment", flush=True)
    venv.create(ENVIRONMENT, with_pip=True)
    # The pip that comes with an older Python takes twice as long to find the versions, and does
    # not say how much of a file it has.
    pip("[2/5] pip itself", 1, "--upgrade", "pip>=25")
    # What is imported is compiled then; of all that is installed, most is never imported.
    options = ("--no-compile", "--progress-bar", "raw")
    hashed = ("--require-hashes", "--no-deps", "--requirement", "constraints.txt")
    pip(f"[3/5] the {locked} packages of constraints.txt", locked, *options, *hashed)
    # A registry may hold several builds of torch, so it has a version and no hash.
    pip(f"[4/5] {torch}", 0, *options, torch)
    own = ("--no-deps", "--no-build-isolation", "--editable", ".")
    pip("[5/5] this checkout", 1, *options, *own)
    marker.write_text(wanted.hexdigest())


def pip(title: str, asked: int, *arguments: str) -> None:
    """Run `pip install`, and tell how far it is; stop with what it said when it fails.

    asked: the number of packages that it is asked for; 0: it is not known.
    """
    print(title, flush=True)
    command = [str(BIN / "python"), "-m", "pip", "install", *UNWARNED, *arguments]
    heard, began, ended = Installation(asked), time.monotonic(), threading.Event()
    before, watched = packages(), sys.stderr.isatty()

    def show() -> None:
        """Write how far it is again and again, where somebody sees it."""
        while watched and not ended.wait(0.5):
            now = f"{heard.text(packages() - before)}, {time.monotonic() - began:.0f} s"
            print(f"\r\033[K      {now}", end="", file=sys.stderr, flush=True)

    shown = threading.Thread(target=show, daemon=True)
    shown.start()
    with subprocess.Popen(
        command,
        cwd=HERE,
        env={**KEEPING_BYTECODE, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            heard.hear(line)
    ended.set()
    shown.join()
    if watched:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode:
        print(*heard.said, sep="", end="", file=sys.stderr)
        sys.exit(process.returncode)
    done = f"{heard.to_install} packages, {heard.megabytes:,.0f} MB downloaded"
    print(f"      {done}, {time.monotonic() - began:.0f} s", flush=True)


def packages() -> int:
    """The number of packages in the environment."""
    folder = Path(sysconfig.get_path("purelib", "venv", {"base": str(ENVIRONMENT)}))
    return len([*folder.glob("*.dist-info")])


class Installation:
    """How far pip is, by what it prints."""

    def __init__(self, asked: int) -> None:
        self.asked, self.found, self.files, self.to_install = asked, 0, 0, 0
        self.megabytes = 0.0
        """Of all files so far"""
        self.missing = 0.0
        """Megabytes of the last file that are still to come"""
        self.said = deque[str](maxlen=40)
        """The last lines, but for those of the progress"""

    def hear(self, line: str) -> None:
        """Take a line of pip."""
        if part := PART.match(line):
            self.missing = (int(part[2]) - int(part[1])) / 1e6
            return
        self.said.append(line)
        if line.startswith(("Collecting ", "Processing ", "Obtaining ")):
            self.found += 1
        elif line.startswith("Ignoring "):  # it is for another system
            self.asked -= 1
        elif line.startswith("Installing collected packages: "):
            self.to_install = line.count(",") + 1
        elif size := SIZE.search(line):
            self.files += 1
            self.missing = float(size[1]) * MEGABYTES[size[2]]
            self.megabytes += self.missing

    def text(self, installed: int) -> str:
        """What pip does now, and how much of it is done. installed: packages so far."""
        if self.to_install:
            return f"installing: {max(0, installed)} of {self.to_install} packages"
        total = max(self.asked, self.found)
        if self.files:
            there = self.megabytes - self.missing
            return f"downloading: {self.files} of {total} packages, {there:,.0f} MB"
        return f"finding: {self.found} of {total or 'unknown'} packages"


def torch_requirement() -> str:
    """The tested torch, for example `torch==2.13.0`."""
    # Imported here, since an older Python has none and gets a sentence from `main`.
    import tomllib

    settings = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["uv"]
    return str(settings["constraint-dependencies"][0])


def quickstart(*options: str) -> None:
    """The sweep of the embedded default; it ends with its table, and with what comes next."""
    run(BIN / "harness", "sweep", "quickstart", *options)
    there = "" if Path.cwd() == HERE else f"cd {shlex.quote(str(HERE))} && "
    activate = (BIN / "activate").relative_to(HERE)
    print(
        f"  # before these, in each new shell: the environment that has them\n  {there}. {activate}"
    )


def quick(*arguments: str) -> None:
    """What a developer runs after every change."""
    check_source()
    pytest(os.cpu_count() or 1, "-m", QUICK_TESTS, *arguments)


def test(*arguments: str) -> None:
    """What must pass before a change is merged."""
    check_source()
    # Some of the time of these tests is spent in waiting for Ray.
    pytest((os.cpu_count() or 1) + 1, *arguments)


def pytest(files: int, *arguments: str) -> None:
    """The tests, so many files at a time, in the order of `tests/conftest.py`."""
    workers = ["-n", str(min(files, 4)), "--dist", "loadfile", "--no-loadscope-reorder"]
    run(BIN / "python", "-m", "pytest", *workers, *arguments)


def check_source() -> None:
    """Lint, format, and the import rule (`[tool.importlinter]` in pyproject.toml)."""
    run(BIN / "ruff", "check", ".")
    run(BIN / "ruff", "format", "--check", ".")
    run(BIN / "lint-imports", "--no-logo")


VERBS = {"quickstart": quickstart, "quick": quick, "test": test}


def main() -> None:
    """Install, then run what was asked for."""
    if sys.version_info < (3, 11):  # noqa: UP036 (an older Python would meet this file first)
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
    verb, *arguments = sys.argv[1:] or [""]
    if verb not in VERBS:
        sys.exit(__doc__)
    install()
    VERBS[verb](*arguments)


if __name__ == "__main__":
    main()
