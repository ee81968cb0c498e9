"""Everything from nothing: make an environment, install, and run the quickstart sweep or the tests.

    python3 bootstrap.py quickstart [sweep options]    # the sweep of the embedded default
    python3 bootstrap.py quick [pytest arguments]      # lint, the import rule, the quick tests
    python3 bootstrap.py test [pytest arguments]       # lint, the import rule, types, all tests

It needs Python 3.11 or newer and a package registry. It installs into `.venv` beside this file, and
again when `pyproject.toml` or `constraints.txt` has changed.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
KEEPING_BYTECODE = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
"""Without bytecode, every process compiles some four thousand modules again: 12 seconds each"""
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
    venv.create(ENVIRONMENT, with_pip=True)
    # The pip that comes with an older Python takes twice as long to find the versions.
    run(BIN / "python", "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25")
    # What is imported is compiled then; of all that is installed, most is never imported.
    pip = [BIN / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
    run(*pip, "--require-hashes", "--no-deps", "--requirement", "constraints.txt")
    # A registry may hold several builds of torch, so it has a version and no hash.
    run(*pip, torch_requirement())
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", ".")
    marker.write_text(wanted.hexdigest())


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
    print(f"  # before these, in each new shell: the environment that has them\n  {there}. {activate}")


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
