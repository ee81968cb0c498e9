"""A type checker knows every hyperparameter that a plugin reads, so it finds a misspelt one."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.plugin import registry
from harness.plugin.skeleton import SKELETON

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SimCSE as it is and with a misspelling, the skeleton, and all plugins misspelt."""
    folder = tmp_path_factory.mktemp("copies")
    for name in ("plain", "planted"):
        shutil.copytree(CHECKOUT / "methods" / "simcse", folder / name)
    path = folder / "planted" / "__init__.py"
    text = path.read_text("utf-8")
    assert text.count("self.config.temperature") == 1
    path.write_text(text.replace("self.config.temperature", "self.config.temprature"), "utf-8")
    (folder / "skeleton.py").write_text(SKELETON.format(name="skeleton"), "utf-8")
    return folder


@pytest.fixture(scope="module")
def misspelt(copies: Path) -> set[tuple[Place, str]]:
    """Every misspelling in copies of all plugins."""
    planted = set()
    for name in METHODS:
        copy = copies / f"misspelt_{name}"
        shutil.copytree(CHECKOUT / "methods" / name, copy)
        fields = registry.load(name).method.config_type.model_fields
        planted |= misspell(copy, fields)
    return planted


@pytest.fixture(scope="module")
def complaints(copies: Path, misspelt: set[tuple[Place, str]]) -> list[tuple[Place, str]]:
    """What mypy says about the copies, in one run: place and text."""
    assert misspelt, "the copies must all be written before mypy runs"
    if (CHECKOUT / ".mypy_cache").is_dir():  # what CI's own run of mypy found needs no second look
        shutil.copytree(CHECKOUT / ".mypy_cache", copies / ".cache")
    command = [
        sys.executable, "-m", "mypy", "--config-file", str(CHECKOUT / "pyproject.toml"),
        "--cache-dir", str(copies / ".cache"), "--no-error-summary", "--hide-error-codes", ".",
    ]  # fmt: skip
    environment = {**os.environ, "MYPYPATH": str(CHECKOUT)}
    done = subprocess.run(
        command,
        cwd=copies, env=environment, capture_output=True, text=True, check=False, timeout=600,
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
    found = {
        (place, unknown[1])
        for place, text in complaints
        if (unknown := re.match(r'"\w+" has no attribute "(\w+)"', text))
    }
    assert len(misspelt) > 150
    assert misspelt - found == set()
