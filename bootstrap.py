"""Everything from nothing: make an environment, install, and run the quickstart sweep or the tests.

    python3 bootstrap.py quickstart
    python3 bootstrap.py test [pytest arguments]

Needs Python 3.11 or newer and a package registry; installs into `.venv` beside this file, once per change of
`pyproject.toml` or `constraints.txt`.
"""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")


def run(*command: str | Path) -> None:
    """Run a command in the checkout; stop with its exit code when it fails."""
    print("+", *[str(part).removeprefix(f"{HERE}{os.sep}") for part in command], flush=True)
    code = subprocess.run([str(part) for part in command], cwd=HERE, check=False).returncode
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
    pip = [BIN / "python", "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
    run(
        *pip, torch_requirement()
    )  # first and by its exact version: a registry may hold several builds
    run(*pip, "--editable", ".[dev]")
    marker.write_text(wanted.hexdigest())


def torch_requirement() -> str:
    """The tested torch, for example `torch==2.13.0`."""
    lines = (HERE / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def main() -> None:
    """Install, then run what was asked for."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this file is what an older Python would meet first)
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
    verb, arguments = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if verb not in ("quickstart", "test"):
        sys.exit(__doc__)
    install()
    if verb == "quickstart":
        run(BIN / "harness", "sweep", "search_spaces/quickstart.yaml")
        return
    run(BIN / "ruff", "check", ".")
    run(BIN / "ruff", "format", "--check", ".")
    run(BIN / "mypy")
    run(BIN / "python", "-m", "pytest", *arguments)


if __name__ == "__main__":
    main()
