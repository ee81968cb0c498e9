"""The two commands of the README, in a fresh clone.

CI itself is a run of the second one in a fresh clone with nothing installed. The environment that
it has made is used again here; a test run in any other environment makes one from nothing.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the last commit, which is what a new user gets."""
    if not shutil.which("git") or not (CHECKOUT / ".git").exists():
        pytest.skip("needs a git checkout to clone")
    folder = tmp_path_factory.mktemp("clone") / "harness"
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(folder)], check=True)
    if (Path(sys.prefix) / "installed").exists():  # bootstrap.py has made it
        (folder / ".venv").symlink_to(sys.prefix)
    return folder


def bootstrap(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `bootstrap.py` as the README says, without any setting of this checkout."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HARNESS_", "PYTHON", "VIRTUAL_ENV", "PYTEST", "RAY_"))
    }
    environment["HARNESS_CACHE"] = str(clone / ".cache")
    python = getattr(
        sys, "_base_executable", sys.executable
    )  # not the environment that runs this test
    return subprocess.run(
        [python, "bootstrap.py", *arguments],
        cwd=clone, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


SHORT = ("--set", "max_steps=5", "--configurations", "1", "--seeds", "0,1")
"""The quickstart with less training; what it scores is not the subject here"""


@pytest.mark.slow
def test_both_commands_do_all_of_their_own_set_up(clone: Path) -> None:
    quickstart = bootstrap(clone, "quickstart", *SHORT)
    assert quickstart.returncode == 0, quickstart.stdout + quickstart.stderr
    rows = [
        line
        for line in quickstart.stdout.splitlines()
        if re.match(r"\d +(simcse|d2cse) +unsup +tiny-bert +2 ", line)
    ]
    assert len(rows) == 2, quickstart.stdout
    assert all("±" in row for row in rows)
    assert len(list((clone / "results" / "trials").glob("*.parquet"))) == 3 + 5

    again = bootstrap(clone, "quickstart", *SHORT)
    assert "to run, 0 already" not in again.stdout
    assert re.search(r"final seeds: 0 to run", again.stdout), again.stdout

    # CI itself is a run of `test` in a fresh clone; `quick` does the same with fewer tests.
    tests = bootstrap(clone, "quick", "tests/losses", "-q", "-n", "0")
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert re.search(r"\d+ passed", tests.stdout)
