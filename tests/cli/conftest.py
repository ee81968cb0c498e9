"""Fixtures that run the command line, in this process (quick) or in a process of its own.

A user's mistake gives one sentence and exit code 2 within seconds, and nothing is written. The
sentence names the place, and the nearest valid name.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import cli
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.data.senteval import ARCHIVE, SIMCSE
from harness.data.sts_pairs import YEARS
from harness.evaluation import suites
from tests.archives import write_archive
from tests.checkout import CHECKOUT as REPOSITORY
from tests.kits import forget
from tests.programs import Answer, run_module

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
WITHOUT_STORE = {"check", "new", "convert"}
"""Verbs that have no `--store`"""
HANGING = 120
"""Seconds after which a command hangs, such as one that has opened a pipe to which nobody writes"""

Harness = Callable[..., Answer]
Shown = Callable[..., str]
Refused = Callable[..., None]
SpaceFile = Callable[..., Path]
LineOf = Callable[[Path, str], str]
Model = Callable[[], Path]
SentEval = Callable[..., Path]


def sets(**values: object) -> list[str]:
    """The options that set these values of a configuration."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def check_sentence(answer: Answer, *parts: object, code: int = 2, steps_at_most: int = 4) -> None:
    """Check the exit code, and that one line on stderr, behind a few steps, has all the parts."""
    assert answer.code == code, answer.out + answer.err
    *steps, last = answer.err.strip().split("\n")
    assert last.startswith("Error: "), answer.err
    assert len(steps) <= steps_at_most, f"more than one line: {answer.err}"
    assert not any(step.startswith(("Error", "Traceback")) for step in steps), answer.err
    assert len(last) < 2000, f"too long: {last}"
    for part in parts:
        assert str(part) in last


@pytest.fixture
def harness(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Harness:
    """harness(argument, ...): run the command in this process, which has imported all of it."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    # What the command changes of its process is not for the tests that follow in it.
    monkeypatch.setenv("PYTHONSAFEPATH", "1")

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["harness", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Answer(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture
def shown(harness: Harness) -> Shown:
    """shown(argument, ...): what a command prints that ends well."""

    def call(*arguments: object) -> str:
        answer = harness(*arguments)
        assert answer.code == 0, answer.out + answer.err
        return answer.out

    return call


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a store that is not there yet."""
    return tmp_path / "store"


@pytest.fixture
def refused(
    harness: Harness, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Refused:
    """refused(arguments, part, ...): check that `harness ARGUMENTS --store STORE` is refused.

    The sentence must have all the parts, and no file may be new in the folder of the test, which is
    the working directory.
    """
    monkeypatch.chdir(tmp_path)

    def call(arguments: list[object], *parts: object) -> None:
        own_store = "--store" in arguments or arguments[0] in WITHOUT_STORE
        before = _files(tmp_path)
        with _at_most(HANGING):
            answer = harness(*arguments, *([] if own_store else ["--store", store]))
        check_sentence(answer, *parts)
        assert _files(tmp_path) == before, "a refused command has written something"

    return call


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError(f"the command hangs for {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def process(cache: Path) -> Harness:
    """process(argument, cwd=, environment={}): run it in a process; None unsets a variable."""

    def call(
        *arguments: object,
        cwd: Path = REPOSITORY,
        environment: dict[str, str | None] | None = None,
        timeout: int = 1200,
    ) -> Answer:
        changed = {"HARNESS_HUB": None, "RAY_ADDRESS": None, "HARNESS_CACHE": str(cache)}
        changed |= environment or {}
        inherited = {name: value for name, value in os.environ.items() if name not in changed}
        inherited |= {name: value for name, value in changed.items() if value is not None}
        return run_module("harness", *arguments, environment=inherited, folder=cwd, timeout=timeout)

    return call


@pytest.fixture
def space(tmp_path: Path) -> SpaceFile:
    """space(old, new, ...): a valid search space in which each text `old` is replaced by `new`."""

    def write(*replacements: str) -> Path:
        text = SPACE
        for old, new in zip(replacements[::2], replacements[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "space.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def line_of() -> LineOf:
    """line_of(path, text): `FILE, line N` for the first line that has this text."""

    def find(path: Path, text: str) -> str:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        number = next(number for number, line in enumerate(lines, 1) if text in line)
        return f"{path}, line {number}"

    return find


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """model(): a copy of the embedded model, to be damaged."""
    return lambda: shutil.copytree(EMBEDDED / "models" / "tiny-bert", tmp_path / "model")


@dataclass(frozen=True)
class Swept:
    """A sweep that has finished: its space, its store and what it printed."""

    space: Path
    store: Path
    answer: Answer


@pytest.fixture(scope="session")
def swept(serially: Harness, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """A sweep without Ray: two configurations of SimCSE on the tiny encoder, two final seeds."""
    folder = tmp_path_factory.mktemp("swept")
    path = folder / "space.yaml"
    path.write_text(SPACE, encoding="utf-8")
    answer = serially(path, "--store", folder / "store")
    assert answer.code == 0, answer.err
    return Swept(path, folder / "store", answer)


def _members() -> dict[str, str]:
    """SentEval's STS members, made of the graded pairs; a gold score of 4.7 or more becomes 5.0."""
    lines = (EMBEDDED / "datasets" / GRADED / "test.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    triples = (("5.0" if float(gold) >= 4.7 else gold, *texts) for gold, *texts in rows)

    def text(count: int, line: str) -> str:
        """The next triples as (gold, a, b) in a form."""
        return "".join(line.format(*next(triples)) for _ in range(count))

    members = {}
    for year, subsets in YEARS.items():
        for subset in subsets:
            pairs = [line.split("\t", 1) for line in text(8, "{}\t{}\t{}\n").splitlines()]
            folder = f"STS/{year.upper()}-en-test/STS"
            members[f"{folder}.input.{subset}.txt"] = "".join(f"{pair}\n" for _, pair in pairs)
            members[f"{folder}.gs.{subset}.txt"] = "".join(f"{gold}\n" for gold, _ in pairs)
    for split, count in (("test", 80), ("dev", 15)):
        benchmark = text(count, "genre\tfile\tyear\t1\t{}\t{}\t{}\n")
        members[f"STS/STSBenchmark/sts-{split}.csv"] = benchmark
    for split in ("test_annotated", "trial"):
        head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tjudgment\n"
        members[f"SICK/SICK_{split}.txt"] = head + text(15, "1\t{1}\t{2}\t{0}\tNEUTRAL\n")
    return members


@pytest.fixture
def senteval(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SentEval]:
    """senteval({member: change}): write a small archive of the STS members; its path.

    The archive is in a mirror that HARNESS_HUB names. A change is a function of the text of the
    member, or None to leave the member out.
    """
    request.getfixturevalue("harness")  # which unsets HARNESS_HUB
    request.getfixturevalue("monkeypatch").setenv("HARNESS_HUB", str(tmp_path / "hub"))

    def write(changes: dict[str, Callable[[str], str] | None] | None = None) -> Path:
        forget(suites)  # data are read once per process
        kept = {
            name: change(text)
            for name, text in _members().items()
            if (change := (changes or {}).get(name, str)) is not None
        }
        return write_archive(tmp_path / "hub" / "datasets" / SIMCSE / ARCHIVE, kept)

    yield write
    forget(suites)
