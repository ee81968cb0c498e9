"""The command line as a user meets it: in this process (quick) or as a process of its own (true)."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import cli

REPOSITORY = Path(__file__).resolve().parents[2]
SPACE = """\
setting: unsup
suite: graded
select: {metric: graded-dev}
search: {seeds: [42]}
final: {seeds: [0, 1]}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 2, batch_size: 8, precision: fp32}
methods:
  simcse:
    grid:
      learning_rate: [1e-4, 5e-4]
"""


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str


Harness = Callable[..., Answer]


@pytest.fixture
def harness(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Harness:
    """harness(argument, ...): the command in this process, which has paid for its imports already."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["harness", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Answer(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture(scope="session")
def process(cache: Path) -> Harness:
    """process(argument, ..., cwd=..., environment={...}): the command as a process of its own.

    In `environment`, None unsets a variable.
    """

    def call(
        *arguments: object, cwd: Path = REPOSITORY, environment: dict[str, str | None] | None = None, timeout: int = 180
    ) -> Answer:
        changed = {"HARNESS_HUB": None, "RAY_ADDRESS": None, "HARNESS_CACHE": str(cache), **(environment or {})}
        inherited = {name: value for name, value in os.environ.items() if name not in changed}
        done = subprocess.run(
            [sys.executable, "-m", "harness", *map(str, arguments)],
            cwd=cwd,
            env=inherited | {name: value for name, value in changed.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def space(tmp_path: Path) -> Callable[..., Path]:
    """space(old, new, ...): a space that works, with every `old` text replaced by the `new` one after it."""

    def write(*replacements: str) -> Path:
        text = SPACE
        for old, new in zip(replacements[::2], replacements[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "space.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@dataclass(frozen=True)
class Swept:
    """A sweep that is done: its space, its store, what it said."""

    space: Path
    store: Path
    answer: Answer


@pytest.fixture(scope="session")
def swept(process: Harness, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Two configurations of SimCSE on the tiny encoder, the better one on two final seeds."""
    folder = tmp_path_factory.mktemp("swept")
    path = folder / "space.yaml"
    path.write_text(SPACE, encoding="utf-8")
    answer = process("sweep", path, "--store", folder / "store")
    assert answer.code == 0, answer.err
    return Swept(path, folder / "store", answer)
