"""Fixtures that run the command line, in this process (quick) or in a process of its own."""

import io
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import cli
from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.data.senteval import ARCHIVE, SIMCSE
from harness.evaluation import suites
from tests.programs import Answer, run_module

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


Harness = Callable[..., Answer]


def sets(**values: object) -> list[str]:
    """The options that set these values of a configuration."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


@pytest.fixture
def harness(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Harness:
    """harness(argument, ...): run the command in this process.

    This is quick, because everything is imported already. What verbs that compute say of their
    steps on stderr is left out; tests/cli/test_progress.py has it.
    """
    monkeypatch.setattr("harness.cli.progress.echo", lambda *_, **__: None)
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


@pytest.fixture(scope="session")
def process(cache: Path) -> Harness:
    """process(argument, ..., cwd=..., environment={...}): run the command in a process of its own.

    In `environment`, None unsets a variable.
    """

    def call(
        *arguments: object,
        cwd: Path = REPOSITORY,
        environment: dict[str, str | None] | None = None,
        timeout: int = 1200,
    ) -> Answer:
        changed = {
            "HARNESS_HUB": None,
            "RAY_ADDRESS": None,
            "HARNESS_CACHE": str(cache),
            **(environment or {}),
        }
        inherited = {name: value for name, value in os.environ.items() if name not in changed}
        return run_module(
            "harness",
            *arguments,
            environment=inherited
            | {name: value for name, value in changed.items() if value is not None},
            folder=cwd,
            timeout=timeout,
        )

    return call


@pytest.fixture
def space(tmp_path: Path) -> Callable[..., Path]:
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


@dataclass(frozen=True)
class Swept:
    """A sweep that has finished: its space, its store and what it printed."""

    space: Path
    store: Path
    answer: Answer


@pytest.fixture(scope="session")
def swept(serially: Harness, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """A sweep of two configurations of SimCSE on the tiny encoder, with two final seeds.

    It does without Ray; the sweeps of tests/sweep and tests/install have it.
    """
    folder = tmp_path_factory.mktemp("swept")
    path = folder / "space.yaml"
    path.write_text(SPACE, encoding="utf-8")
    answer = serially(path, "--store", folder / "store")
    assert answer.code == 0, answer.err
    return Swept(path, folder / "store", answer)


# A small SentEval archive


SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}


def _members() -> dict[str, str]:
    """The STS members in the formats of SentEval, made of the embedded graded pairs.

    Pairs with a gold score of 4.7 or more get 5.0.
    """
    lines = (EMBEDDED / "datasets" / GRADED / "test.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    triples = iter(
        [("5.0" if float(gold) >= 4.7 else gold, first, second) for gold, first, second in rows]
    )

    def take(count: int) -> list[tuple[str, str, str]]:
        return [next(triples) for _ in range(count)]

    members = {}
    stsb = {"test": take(80), "dev": take(15)}
    sick = {"test_annotated": take(15), "trial": take(15)}
    for year, subsets in SUBSETS.items():
        for subset in subsets:
            pairs = take(8)
            members[f"STS/{year}-en-test/STS.input.{subset}.txt"] = "".join(
                f"{a}\t{b}\n" for _, a, b in pairs
            )
            members[f"STS/{year}-en-test/STS.gs.{subset}.txt"] = "".join(
                f"{gold}\n" for gold, _, _ in pairs
            )
    for split, pairs in stsb.items():
        text = "".join(f"genre\tfile\tyear\t1\t{gold}\t{a}\t{b}\n" for gold, a, b in pairs)
        members[f"STS/STSBenchmark/sts-{split}.csv"] = text
    for split, pairs in sick.items():
        text = "".join(f"1\t{a}\t{b}\t{gold}\tNEUTRAL\n" for gold, a, b in pairs)
        members[f"SICK/SICK_{split}.txt"] = (
            f"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tjudgment\n{text}"
        )
    return members


@pytest.fixture
def senteval(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """senteval({member: change}): write a small archive of the STS members; its path.

    The archive is in a mirror that HARNESS_HUB names. A change is a function of the text of the
    member, or None to leave the member out.
    """
    path = tmp_path / "hub" / "datasets" / SIMCSE / ARCHIVE
    path.parent.mkdir(parents=True)
    request.getfixturevalue("harness")  # which unsets HARNESS_HUB
    request.getfixturevalue("monkeypatch").setenv("HARNESS_HUB", str(tmp_path / "hub"))

    def write(changes: dict[str, Callable[[str], str] | None] | None = None) -> Path:
        suites._loaded.cache_clear()  # data are read once per process
        with tarfile.open(path, "w") as tar:
            for name, text in _members().items():
                change = (changes or {}).get(name, str)
                if change is not None:
                    content = change(text).encode()
                    entry = tarfile.TarInfo(name)
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
        return path

    yield write
    suites._loaded.cache_clear()
