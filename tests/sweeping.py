"""Fixtures that run sweeps in processes of their own, with plugins whose trials take a moment."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.trials.store import Store
from tests.programs import Answer, run_module

HEAD = """\
import os
import time
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from harness import plugin
from harness.data.tokens import piece_ids
from harness.evaluation.suites import suite
from harness.plugin import Stage
from harness.losses.info_nce import info_nce
"""

BAG = '''\
class Bag(plugin.Method[Config]):
    """A bag of words that does not train."""

    def __init__(self, config, kit):
        super().__init__(config, kit)
        self.words = nn.Embedding(len(kit.tokenizer), getattr(config, "width", 8))

    @property
    def longest(self):
        return 64

    def embed(self, batch):
        mask = batch.attention_mask[:, :, None].float()
        return (self.words(batch.input_ids) * mask).sum(1) / mask.sum(1)
'''
"""The code of a method to inherit from; it stands below `Config`."""

TRAINED = (
    HEAD
    + """\


class Config(plugin.TrainingConfig):
    sentences: str = "wiki1m"  # of any shape
    learning_rate: float = Field(0.01, gt=0)
    width: int = Field(8, ge=1)
    fault: Literal["none", "no fault", "raise"] = "none"


"""
    + BAG
    + """\


class Method(Bag):
    '''A bag of words that trains.'''

    @classmethod
    def corpora(cls, config):
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config):
        return [
            Stage(
                name="contrastive",
                trains={"*": "learning_rate"},
                streams={"contrastive": config.batch_size},
                losses={"contrastive": 1.0},
                max_steps=config.max_steps,
            )
        ]

    def watched(self, stage):
        return {"niceness": float(os.getpriority(os.PRIO_PROCESS, 0))}

    def losses(self, batch, stage):
        time.sleep(float(os.environ.get("HARNESS_TEST_PAUSE", PAUSE)))
        if self.config.fault == "raise" and not Path(REPAIRED).exists():
            raise ValueError("a planted fault")
        vectors = self.embed(batch["contrastive"])
        first, second = (nn.functional.dropout(vectors, 0.1) for _ in range(2))
        return {"contrastive": info_nce(first, second, temperature=self.config.temperature)}
"""
)
"""The code of a plugin that trains.

`write_plugin` writes two constants in front of it: PAUSE is the time of a step in seconds, unless
the environment says another, and REPAIRED is a file; the faults happen as long as it is not there.
"""

KNOWN = (
    HEAD
    + """\


class Config(plugin.MethodConfig):
    noise: float = Field(0.25, ge=0, le=1)
    favours: Literal["dev", "test", "both"] = "both"


class Method(plugin.Method[Config]):
    '''A bag of words that does not train.

    The dev score falls with the distance of `noise` from 0.25, and far where dev is not favoured.
    '''

    def __init__(self, config, kit):
        super().__init__(config, kit)
        self.words = np.random.default_rng(0).standard_normal((len(kit.tokenizer), 64))
        task = suite("graded").load("graded-dev")
        self.dev = {tuple(row) for row in piece_ids(kit.tokenizer, [*task.first, *task.second])}

    @property
    def longest(self):
        return 64

    def embed(self, batch):
        rows = zip(batch.input_ids, batch.attention_mask.sum(1).tolist(), strict=True)
        found = [self.vector(ids[1 : length - 1].tolist()) for ids, length in rows]
        return torch.tensor(np.stack(found))

    def vector(self, ids):
        is_dev = tuple(ids) in self.dev
        noise = 4 * abs(self.config.noise - 0.25) if is_dev else 0.0
        noise += 0.0 if self.config.favours in ("both", "dev" if is_dev else "test") else 4.0
        vector = self.words[ids].mean(0)
        other = np.random.default_rng(ids).standard_normal(64)
        return vector / np.linalg.norm(vector) + noise * other / np.linalg.norm(other)
"""
)


ONE_AT_A_TIME = ("--cpus-per-trial", str(os.cpu_count()))
"""Options of a sweep that has one worker; each further one imports for seconds"""

FEW_PAIRS = """\
from harness.data.sts_pairs import Pairs, graded_pairs
from harness.evaluation.sts import correlations, selecting
from harness.evaluation.suites import SuiteCard, register


def few(split):
    found = graded_pairs(split)
    return Pairs(found.first[:PAIRS], found.second[:PAIRS], found.gold[:PAIRS])


few_pairs = register(
    SuiteCard("few", dev_tasks=("few-dev",)),
    {"few-dev": lambda: few("dev"), "few": lambda: few("test")},
    list,
    select=selecting,
)(correlations)
"""


def write_few_pairs(folder: Path, pairs: int = 40) -> Path:
    """Write a suite of a few pairs, which takes a tenth of the time of `graded`; its file."""
    path = folder / "few.py"
    path.write_text(f"PAIRS = {pairs}\n{FEW_PAIRS}", encoding="utf-8")
    return path


def one_grid(method: str, hyperparameter: str, values: Sequence[object]) -> str:
    """A search space: one hyperparameter of one method, on the embedded encoder and suite."""
    return f"""\
setting: unsup
suite: graded
select: {{metric: graded-dev}}
final: {{seeds: [0]}}
encoders: [tiny-bert]
methods:
  {method}:
    grid:
      {hyperparameter}: [{", ".join(map(str, values))}]
"""


def write_space(
    folder: Path, methods: str, *more: str, suite: str = "", final: str = "[0]", **fixed: object
) -> Path:
    """Write a search space on tiny-bert with these lines about methods; its file.

    `suite`: that of a few pairs, unless it is named. `more`: further lines. `fixed`: values of all
    methods, besides float32 and short batches of the embedded sentences; None: not these.
    """
    name = suite or write_few_pairs(folder)
    values = {"sentences": "graded-sentences", "batch_size": 8, "precision": "fp32", **fixed}
    fixed_values = ", ".join(f"{name}: {value}" for name, value in values.items() if value)
    lines = [
        "setting: unsup", f"suite: {name}", f"select: {{metric: {suite or 'few'}-dev}}",
        f"final: {{seeds: {final}}}", "encoders: [tiny-bert]", *more,
        f"set: {{{fixed_values}}}", "methods:",
    ]  # fmt: skip
    path = folder / "space.yaml"
    path.write_text("\n".join([*lines, methods]), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def environment(cache: Path) -> dict[str, str]:
    """The environment of every process: embedded data, a local Ray, the cache of this session.

    A test in this process may have imported the pool on Ray, which sets variables for Ray.
    """
    changed = ("HARNESS_HUB", "RAY_", "TUNE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(changed)} | {
        "HARNESS_CACHE": str(cache)
    }


@pytest.fixture(scope="session")
def process(environment: dict[str, str]) -> Callable[..., Answer]:
    """process(argument, ...): run the command in a process of its own."""

    def call(*arguments: object) -> Answer:
        return run_module("harness", *arguments, environment=environment)

    return call


@pytest.fixture(scope="session")
def write_plugin() -> Callable[..., Path]:
    """write_plugin(path, "trained" or "known", pause): a plugin; `path`.repaired mends faults."""

    def write(path: Path, kind: str, pause: float = 0.0) -> Path:
        repaired = path.with_suffix(".repaired")
        source = {"trained": TRAINED, "known": KNOWN}[kind]
        path.write_text(
            f"PAUSE = {pause}\nREPAIRED = {str(repaired)!r}\n{source}", encoding="utf-8"
        )
        return path

    return write


def marked_processes(mark: str, part: str = "") -> list[int]:
    """The living processes with the mark in their environment, and `part` in their command."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            if mark.encode() in (folder / "environ").read_bytes() and part.encode() in command:
                pids.append(int(folder.name))
        except OSError:
            continue  # it has ended, or it is another user's
    return pids


def heed_signals() -> None:
    """Let Ctrl-C and SIGHUP interrupt this process.

    Background jobs, such as those of a CI, ignore Ctrl-C, those of `nohup` SIGHUP, and their
    children inherit this.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    """Wait until the condition holds, but not longer than so many seconds."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


def results(store: Path, *besides: str) -> dict[str, dict[str, Any]]:
    """Key -> the fields that two runs of a trial have in common, without these."""
    of_a_run = {"started", "sentences_per_second", "peak_host_memory_mib", *besides}
    return {
        record.key: {
            name: value
            for name, value in vars(record).items()
            if name not in of_a_run and not name.endswith("_seconds")
        }
        for record in Store(store).read().records()
    }


@pytest.fixture
def processes_left() -> Callable[[str, float], list[int]]:
    """processes_left(mark, seconds): what a command has left behind after so many seconds."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc")

    def wait(mark: str, seconds: float) -> list[int]:
        wait_for(lambda: not marked_processes(mark), seconds)
        return marked_processes(mark)

    return wait
