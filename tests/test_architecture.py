"""The import rule: it finds violations, and the architecture page shows the same order."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT


def contracts() -> list[dict[str, object]]:
    """The contracts in pyproject.toml."""
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[dict[str, object]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return found


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the imports of the source in a folder."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    return subprocess.run(
        [*command, "--no-cache", "--config", "pyproject.toml"],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def test_the_page_shows_the_order_that_is_checked() -> None:
    page = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    shown = [re.split(r"\s{2,}", line)[0] for line in block.splitlines()]
    (layers,) = (contract["layers"] for contract in contracts() if contract["type"] == "layers")
    assert isinstance(layers, list)
    assert shown == [layer for layer in layers if layer != "__main__"]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The source of harness and methods, with the contracts, in a folder of its own."""
    ignored = shutil.ignore_patterns("__pycache__", "hub")
    for package in ("harness", "methods"):
        shutil.copytree(CHECKOUT / package, tmp_path / package, ignore=ignored)
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.process
@pytest.mark.parametrize(
    ("file", "planted", "contract"),
    [
        ("harness/losses/nli.py", "harness.plugin.kit", "only packages below its own"),
        ("harness/training/loop.py", "harness.evaluation.sts", "only packages below its own"),
        ("harness/sweeps/run.py", "harness.report.groups", "only packages below its own"),
        ("harness/plugin/kit.py", "harness.plugin.method", "no circles"),
        ("harness/trials/lookup.py", "methods.simcse", "never imports methods"),
        ("methods/simcse/__init__.py", "harness.plugin.kit", "imports the facade"),
        ("methods/sbert/__init__.py", "harness.training.loop", "imports the facade"),
    ],
)
def test_a_planted_violation_is_found(copied: Path, file: str, planted: str, contract: str) -> None:
    source = (copied / file).read_text(encoding="utf-8")
    (copied / file).write_text(f"{source}\nimport {planted}\n", encoding="utf-8")
    answer = lint(copied)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    broken = [line for line in answer.stdout.splitlines() if line.endswith(" BROKEN")]
    assert [line for line in broken if contract in line], answer.stdout


@pytest.mark.process
def test_the_source_keeps_the_rule(copied: Path) -> None:
    answer = lint(copied)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"Contracts: {len(contracts())} kept, 0 broken." in answer.stdout
