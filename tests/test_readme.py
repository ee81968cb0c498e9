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

from benchmarks.quickstart import TABLE, table_of
from harness.sweeps.spaces.space import load_space
from harness.trials.trial import commit
from tests.checkout import CHECKOUT
from tests.sweeping import ONE_AT_A_TIME


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


def bootstrap(clone: Path, *arguments: str) -> str:
    """Output of `bootstrap.py` as the README runs it, without any setting of this checkout."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HARNESS_", "PYTHON", "VIRTUAL_ENV", "PYTEST", "RAY_"))
    } | {"HARNESS_CACHE": str(clone.parent / "cache")}
    python = getattr(sys, "_base_executable", sys.executable)  # not that which runs this test
    done = subprocess.run(
        [python, "bootstrap.py", *arguments],
        cwd=clone, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SHORT = ("--set", "max_steps=5", "--configurations", "1", "--seeds", "0,1", *ONE_AT_A_TIME)
"""The quickstart with less training and one worker; what it scores is not the subject here"""


def readme_table() -> list[str]:
    """The lines of the table of the quickstart in the README."""
    [block] = TABLE.findall((CHECKOUT / "README.md").read_text(encoding="utf-8"))
    return [line.removeprefix("    ") for line in block.splitlines()]


def names_of(table: list[str]) -> list[list[str]]:
    """The headings of a table, and the number, method, setting and encoder of its rows."""
    head, _, *rows = (re.split(r" {2,}", line) for line in table)
    return [head, *(row[:4] for row in rows)]


def test_the_readme_has_configurations_of_the_quickstart() -> None:
    space, _ = load_space(CHECKOUT / "search_spaces" / "quickstart.yaml")
    _, _, *rows = (re.split(r" {2,}", line) for line in readme_table())
    assert sorted(row[1] for row in rows) == sorted(space.methods)
    for _, method, _, _, configuration, n, *scores in rows:
        grid = space.methods[method].grid
        assert grid is not None
        chosen = dict(value.split("=") for value in configuration.split(", "))
        assert chosen.keys() == grid.keys()
        for name, value in chosen.items():
            assert value in {text_of(each) for each in grid[name]}
        trained = "learning_rate" in chosen
        assert n == (f"{len(space.final.seeds)}" if trained else "–")
        assert all(("±" in score) == trained for score in scores)


def text_of(value: object) -> str:
    """A value of a grid as a table prints it; YAML reads `5e-4` as a text."""
    return str(float(value)) if re.fullmatch(r"[\d.]+e-\d+", str(value)) else str(value)


# More than 20 s: the quickstart of a new user, and the quick tests of a folder.
@pytest.mark.slow
def test_both_commands_do_all_of_their_own_set_up(clone: Path) -> None:
    (clone / "my-space.yaml").write_text("setting: unsup\n")  # it belongs to no commit
    out = bootstrap(clone, "quickstart", *SHORT)
    rows = re.findall(r"^\d +(?:simcse|d2cse) +unsup +tiny-bert .* 2 .*", out, re.MULTILINE)
    assert len(rows) == 2, out
    assert all("±" in row for row in rows)
    head, *own = names_of(table_of(out))
    shown, *printed = names_of(readme_table())
    assert head == shown
    assert sorted(row[1:] for row in own) == sorted(row[1:] for row in printed)
    assert len(list((clone / "results" / "trials").glob("*.parquet"))) == 3 + 5
    assert out.endswith(". .venv/bin/activate\n")
    status = ["git", "-C", str(clone), "status", "--porcelain"]
    left = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    assert left == "?? my-space.yaml\n"
    # An environment that is used again has the code of this checkout, which may be changed.
    ran = commit() if (clone / ".venv").is_symlink() else commit().removesuffix("+")
    assert re.search(rf"commit:\s+{re.escape(ran)}\.", out), out
    # CI itself is a run of `test` in a fresh clone; `quick` does the same with fewer tests.
    assert re.search(r"\d+ passed", bootstrap(clone, "quick", "tests/losses", "-q", "-n", "0"))
