"""A type checker finds nothing in the code, and would find every misspelt hyperparameter in it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.cli.plugins import skeleton
from harness.plugin import registry

pytestmark = [pytest.mark.slow, pytest.mark.process]

CHECKOUT = Path(__file__).resolve().parents[2]
METHODS = sorted(path.parent.name for path in (CHECKOUT / "methods").glob("*/__init__.py"))
COMPLAINT = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$", re.MULTILINE)
READ = re.compile(r"\bconfig\.(?P<field>[a-z]\w*)\b")
"""A hyperparameter that is read: `self.config.temperature` or `config.temperature`"""

Place = tuple[str, int]
"""A file's path in the folder of all copies, and a line"""


def misspell(folder: Path, fields: Mapping[str, object]) -> set[tuple[Place, str]]:
    """Misspell every hyperparameter that a copied plugin reads; where, and its new name."""
    planted: set[tuple[Place, str]] = set()
    for path in sorted(folder.glob("*.py")):
        name = path.relative_to(folder.parent).as_posix()
        lines = path.read_text("utf-8").splitlines()
        for index, line in enumerate(lines):
            read = {found["field"] for found in READ.finditer(line)} & set(fields)
            planted |= {((name, index + 1), f"{field}x") for field in read}
            lines[index] = READ.sub(
                lambda found: f"{found[0]}x" if found["field"] in fields else found[0], line
            )
        path.write_text("\n".join(lines), "utf-8")
    return planted


def mypy(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run mypy in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )


@pytest.fixture(scope="module")
def checked() -> "subprocess.CompletedProcess[str]":
    """Output of mypy for the checkout, where it keeps what it has found."""
    return mypy(CHECKOUT)


# More than 20 s: mypy reads all the code, and has no cache in a fresh clone.
def test_the_code_passes(checked: "subprocess.CompletedProcess[str]") -> None:
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SimCSE as it is and with a misspelling, the skeleton, and all plugins misspelt."""
    folder = tmp_path_factory.mktemp("copies")
    for name in ("plain", "planted"):
        shutil.copytree(CHECKOUT / "methods" / "simcse", folder / name)
    path = folder / "planted" / "method.py"
    text = path.read_text("utf-8")
    assert text.count("self.config.temperature") == 1
    path.write_text(text.replace("self.config.temperature", "self.config.temprature"), "utf-8")
    (folder / "skeleton.py").write_text(skeleton("simcse", "skeleton"), "utf-8")
    return folder


@pytest.fixture(scope="module")
def misspelt(copies: Path) -> set[tuple[Place, str]]:
    """Every misspelling in copies of all plugins."""
    planted = set()
    for name in METHODS:
        copy = copies / f"misspelt_{name}"
        shutil.copytree(CHECKOUT / "methods" / name, copy)
        fields = registry.load(name).config_type.model_fields
        planted |= misspell(copy, fields)
    return planted


@pytest.fixture(scope="module")
def complaints(
    copies: Path, misspelt: set[tuple[Place, str]], checked: "subprocess.CompletedProcess[str]"
) -> list[tuple[Place, str]]:
    """Complaints of mypy about the copies, in one run: place and text."""
    assert misspelt, "the copies must all be written before mypy runs"
    assert checked.returncode in (0, 1), checked.stderr
    shutil.copytree(CHECKOUT / ".mypy_cache", copies / ".cache")  # so it looks at the copies alone
    done = mypy(
        copies, "--config-file", str(CHECKOUT / "pyproject.toml"),
        "--cache-dir", str(copies / ".cache"), "--no-error-summary", "--hide-error-codes", ".",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found = COMPLAINT.finditer(done.stdout)
    return [((each["file"], int(each["line"])), each["text"]) for each in found]


def of(complaints: list[tuple[Place, str]], folder: str) -> list[str]:
    """The complaints about one of the copies."""
    return [text for (file, _), text in complaints if file.split("/")[0] == folder]


def test_a_misspelt_hyperparameter_is_named(complaints: list[tuple[Place, str]]) -> None:
    (complaint,) = of(complaints, "planted")
    assert complaint.startswith('"Config" has no attribute "temprature"')


def test_a_plugin_without_the_misspelling_passes(complaints: list[tuple[Place, str]]) -> None:
    assert of(complaints, "plain") == []


def test_the_skeleton_passes(complaints: list[tuple[Place, str]]) -> None:
    assert of(complaints, "skeleton.py") == []


def test_no_plugin_reads_a_hyperparameter_that_is_not_typed(
    complaints: list[tuple[Place, str]], misspelt: set[tuple[Place, str]]
) -> None:
    errors = {
        (place, unknown[1])
        for place, text in complaints
        if (unknown := re.match(r'"\w+" has no attribute "(\w+)"', text))
    }
    assert len(misspelt) > 150
    assert misspelt - errors == set()
