"""Sweeps of two machines into one bucket, through the command line."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from tests.programs import run_module
from tests.remote.buckets import Proxy
from tests.sweeping import write_space

pytestmark = [pytest.mark.slow, pytest.mark.process]
METHODS = "  words: {grid: {learning_rate: [0.01, 0.1]}}"
SECONDS = 15.0
"""Longest wait for the sentence about a bucket that cannot be used"""


@dataclass(frozen=True)
class Machine:
    """A machine with a cache of its own."""

    environment: dict[str, str]
    folder: Path

    def __call__(self, *arguments: object) -> str:
        """Output of a command that succeeds."""
        answer = run_module("harness", *arguments, environment=self.environment, folder=self.folder)
        assert answer.code == 0, answer.out + answer.err
        return answer.out


@pytest.fixture
def machines(bucket: str, environment: dict[str, str], tmp_path: Path) -> list[Machine]:
    """Two machines that share a bucket and nothing else."""
    aws = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    shared = {**environment, **aws, "HARNESS_SHARED_CACHE": f"s3://{bucket}/cache"}
    for name in "ab":
        (tmp_path / name).mkdir()
    own = [{"HARNESS_CACHE": str(tmp_path / name / "cache")} for name in "ab"]
    return [Machine(shared | cache, tmp_path / name) for cache, name in zip(own, "ab", strict=True)]


def table_of(out: str) -> str:
    """The table in what a sweep prints."""
    return out[out.index("method  ") : out.index("The table with")]


def test_a_second_machine_has_nothing_to_run(
    machines: list[Machine], bucket: str, tmp_path: Path, proxy: Proxy, write_plugin: Any
) -> None:
    """tests/sweep/test_private.py has a sweep of Ray into a bucket."""
    a, b = machines
    plugin = write_plugin(tmp_path / "words.py", "trained")
    space = write_space(tmp_path, METHODS, "search: {seeds: [42]}", suite="graded", max_steps=2)
    store = ("--store", f"s3://{bucket}/results/trials")
    proxy.faults.extend(["pass", "pass", "busy", "pass", "drop", "pass", "half"] * 4)
    first = a("sweep", "--local", plugin, space, *store)
    assert "2 to run, 0 already in the store" in first
    second = b("sweep", "--local", plugin, space, *store)
    assert "0 to run, 2 already in the store" in second
    assert "final seeds: 0 to run, 1 already in the store" in second
    assert table_of(second) == table_of(first)
    listed = b("list", "trials", *store)
    assert listed == a("list", "trials", *store)
    assert len(listed.splitlines()) == 3
    key = next(line.split()[0] for line in listed.splitlines() if " final " in line)
    measured = b("eval", key, "--suite", "graded", "--method", plugin, *store)
    assert "training" not in measured
    assert f"harness show {key}" in second


@pytest.mark.parametrize(
    ("address", "fault", "sentence"),
    [
        ("s3://no-such-bucket/trials", None, "there is no such bucket"),
        ("s3://BUCKET/trials", "denied", "access is denied; check the credentials"),
        ("s3://BUCKET/trials", "drop", "it does not answer"),
        ("s3://BUCKET/trials?endpoint_override=127.0.0.1:1&scheme=http", None, "does not answer"),
        ("s3://BUCKET/trials?endpoint=localhost", None, 'did you mean "endpoint_override"?'),
        ("s3://", None, "write the address as s3://BUCKET/FOLDER"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_one_sentence(
    address: str,
    fault: str | None,
    sentence: str,
    bucket: str,
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    command = "harness run pooling --encoder tiny-bert --store"
    monkeypatch.setattr(sys, "argv", [*command.split(), address.replace("BUCKET", bucket)])
    proxy.always = fault
    began = time.monotonic()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert time.monotonic() - began < SECONDS
    assert not list((tmp_path / "cache").rglob("*.parquet"))
