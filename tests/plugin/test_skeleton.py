"""Plugins that `harness new` writes keep the contract and the style."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from harness.cli.plugins import Skeleton, skeleton
from harness.plugin_check.check import problems

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=get_args(Skeleton))
def like(request: pytest.FixtureRequest) -> Skeleton:
    found: Skeleton = request.param
    return found


@pytest.fixture
def written(tmp_path: Path, like: Skeleton) -> Path:
    """The folder of a plugin as `harness new mine --like ...` writes it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text(skeleton(like, "mine"), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_passes_harness_check(written: Path) -> None:
    source = (written / "__init__.py").read_text(encoding="utf-8")
    assert source.startswith('"""mine: what the method does')
    assert "NAME" not in source
    assert problems(str(written)) == []


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments", [["check"], ["check", "--select", "E501"], ["format", "--check"]]
)
def test_ruff_has_no_complaint(written: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "ruff", *arguments, "--config", CHECKOUT / "pyproject.toml"]
    done = subprocess.run([*command, written], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
