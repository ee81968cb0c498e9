"""A trial that is killed at any step goes on from its checkpoint, and its record is the same.

It is the same in every digit, for every method, and so are the trained weights.
"""

import itertools
import logging
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED, model_folder
from harness.errors import Interrupted
from harness.files import cache_folder
from harness.plugin import registry
from harness.plugin_check.check import TINY
from harness.training import shared_stages, steps
from harness.trials.record import Record
from harness.trials.run import CHECKPOINT, GIVE_WAY, attempt
from harness.trials.trial import Trial
from tests.kits import FULL, FullDisk
from tests.matrix import trained_rows
from tests.sweeping import write_few_pairs

pytestmark = pytest.mark.slow

OF_THE_RUN = {"started", "sentences_per_second", "peak_host_memory_mib"}
SMALL = {
    **TINY, "max_steps": 7, "evaluation_interval": 3, "learning_rate": 1e-3, "epochs": 9,
    "precision": "fp32", "stage1_steps": 5, "stage1_batch_size": 8, "auxiliary_batch_size": 8,
    "classification_batch_size": 8, "classification_max_steps": 4, "teacher": "tiny-bert",
    "second_teacher": "tiny-bert",
}  # fmt: skip
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("simcse", {"setting": "semisup", "schedule": "sup-unsup"}),  # a run of its own
    ("promptbert", {"setting": "semisup", "schedule": "sup-joint"}),
    ("consert", {"setting": "semisup", "schedule": "sup-joint"}),
    ("consert", {"setting": "unsup", "patience": 2, "evaluation_interval": 2, "max_steps": 20}),
    ("diffaug", {"setting": "sup", "accumulation": 2}),
    ("d2cse", {"setting": "sup"}),
    ("dcpcse", {"setting": "sup"}),
    ("diffaug", {"setting": "semisup", "stage1_clip": "released", "label_fraction": 0.3}),
    ("diffaug", {"setting": "sup", "augmentation": "lora", "second_stage": "augmentation"}),
    ("clsr", {"checkpoint": "last", "precision": "bf16"}),
    ("esimcse", {"queue_ratio": 2.5, "momentum_start": "random", "precision": "bf16"}),
    ("flow", {"permutation": "invertible"}),
    # Its first gradients are too large for fp16 as well, but infinite and not NaN.
    ("simcse", {"setting": "unsup", "precision": "fp16", "encoder": "tiny-bert"}),
    ("simcse", {"setting": "unsup", "weight_decay": 0.1, "warmup_ratio": 0.3}),
]


def settings() -> Iterator[Any]:
    """Methods that train, in their first setting (test_contract.py has all), and the variants."""
    for name, setting in dict(reversed([*trained_rows()])).items():
        yield pytest.param(name, {"setting": setting}, id=f"{name}-{setting}")
    for name, values in VARIANTS:
        shown = "-".join(str(value) for value in values.values())
        yield pytest.param(name, values, id=f"{name}-{shown}")


WATCHED = '''"""{name}, whose test hears of every batch."""

from methods.{name}.method import Method as Original


class Method(Original):
    watchers = []

    def losses(self, batch, stage):
        for tell in self.watchers:
            tell()
        return super().losses(batch, stage)
'''

TrialOf = Callable[..., Trial]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random encoder that reads as tiny-bert does, with a quarter of its width."""
    folder = tmp_path_factory.mktemp("narrow")
    tiny = str(model_folder("tiny-bert"))
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig.from_pretrained(tiny, **sizes)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def trial_of(tmp_path_factory: pytest.TempPathFactory, narrow: str) -> TrialOf:
    """trial_of(method, ...): seven steps, few sentences; it calls `watchers` before each batch."""
    folder = tmp_path_factory.mktemp("trials")
    suite, sentences = write_few_pairs(folder, 16), folder / "sentences.txt"
    lines = (EMBEDDED / "datasets" / GRADED / "sentences.txt").read_text().splitlines()
    sentences.write_text("\n".join(lines[:64]), encoding="utf-8")
    few = {"suite": str(suite), "sentences": str(sentences), "corpus": str(sentences)}

    def make(name: str, **values: Any) -> Trial:
        declared = registry.load(name).config_type.model_fields
        small = {
            key: value
            for key, value in {**SMALL, **few, "encoder": narrow}.items()
            if key in declared and len(get_args(declared[key].annotation)) != 1
        }
        plugin = folder / f"{name}.py"
        plugin.write_text(WATCHED.format(name=name), encoding="utf-8")
        return Trial(str(plugin), {**small, **values}, seed=3)

    return make


@contextmanager
def heard(trial: Trial, watcher: Callable[[], object]) -> Iterator[None]:
    """In the block, the method calls `watcher` before every batch."""
    method: Any = trial.plugin.method
    method.watchers.append(watcher)
    try:
        yield
    finally:
        method.watchers.remove(watcher)


@contextmanager
def counted(trial: Trial) -> Iterator[list[int]]:
    """Yield a list with an item for each batch of the block."""
    batches: list[int] = []
    with heard(trial, lambda: batches.append(1)):
        yield batches


class Killed(BaseException):
    """The process ends here."""


class Clock:
    """A clock that stands still until a test moves it."""

    now = 0.0

    @contextmanager
    def killed(self, trial: Trial, after: int, checkpoints: float = 1.0) -> Iterator[None]:
        """In the block, the method dies in the batch after so many.

        In the first batch before, and in this share of the others, so much time passes that a
        checkpoint is due.
        """
        batches, generator = itertools.count(), random.Random(after)

        def dies() -> None:
            batch = next(batches)
            if batch == after:
                raise Killed
            if batch == 0 or generator.random() < checkpoints:
                self.now += 60

        with heard(trial, dies), pytest.raises(Killed):
            yield


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of every test, and a minute between two checkpoints."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setenv("HARNESS_CHECKPOINT_MINUTES", "1")
    return clock


def run(trial: Trial, folder: Path) -> Record:
    """Run a trial with its files in this folder; a new one has no states of shared stages."""
    if not folder.exists():
        shutil.rmtree(cache_folder() / "stages", ignore_errors=True)
        folder.mkdir()
    return attempt(trial, lambda _: None, folder / "weights.safetensors", folder / "running")


@dataclass(frozen=True)
class Undisturbed:
    """A trial that nobody has stopped, and what came of it."""

    trial: Trial
    folder: Path
    record: Record

    def is_run(self, folder: Path, **other: Any) -> None:
        """Run the trial there; its record, but for these fields, and its weights are the same."""
        assert same(run(self.trial, folder)) == same(self.record) | other
        if not other:
            one, two = (load_file(each / "weights.safetensors") for each in (self.folder, folder))
            assert one.keys() == two.keys()
            assert [name for name in one if not one[name].equal(two[name])] == []


def same(record: Record) -> dict[str, Any]:
    """The fields of a record that do not depend on the time."""
    assert record.finished, record.reason
    return {
        each.name: getattr(record, each.name)
        for each in fields(Record)
        if each.name not in OF_THE_RUN and not each.name.endswith("_seconds")
    }


@pytest.fixture(scope="module")
def simcse(trial_of: TrialOf, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The trial of most tests."""
    trial, folder = trial_of("simcse"), tmp_path_factory.mktemp("simcse")
    return Undisturbed(trial, folder, run(trial, folder))


@pytest.mark.parametrize(("name", "values"), list(settings()))
def test_killed_and_resumed_it_is_the_same_trial(
    name: str, values: Mapping[str, Any], trial_of: TrialOf, clock: Clock, tmp_path: Path
) -> None:
    trial, one, other = trial_of(name, **values), tmp_path / "one", tmp_path / "other"
    with counted(trial) as batches:
        alone = Undisturbed(trial, one, run(trial, one))
    last = random.Random(f"{name} {values}").randrange(1, len(batches))
    with clock.killed(trial, last, checkpoints=0.4):
        run(trial, other)
    alone.is_run(other)


def test_a_shared_stage_may_be_killed_anywhere(
    trial_of: TrialOf, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own states, at every second step, and the checkpoint, at some, meet in any order."""
    monkeypatch.setattr(shared_stages, "STATE_INTERVAL", 2)
    trial, one = trial_of("diffaug", setting="semisup"), tmp_path / "one"
    alone = Undisturbed(trial, one, run(trial, one))
    for step in (1, 4, 5, 9):
        other = tmp_path / str(step)
        with clock.killed(trial, step, checkpoints=0.4):
            run(trial, other)
        alone.is_run(other)


def test_a_trial_may_be_killed_again(simcse: Undisturbed, clock: Clock, tmp_path: Path) -> None:
    """In the batch after that from which it goes on, and in a later one."""
    other = tmp_path / "other"
    for batches in (3, 1, 2):
        with clock.killed(simcse.trial, batches):
            run(simcse.trial, other)
    simcse.is_run(other)


DRAWING = """

import random

import numpy as np
import torch

Watched = Method


class Method(Watched):
    '''Every random source is asked in training and on dev.'''

    def losses(self, batch, stage):
        noise = random.random() + random.gauss(0, 1) + np.random.rand() + np.random.randn()
        return {name: loss * (1 + noise) for name, loss in super().losses(batch, stage).items()}

    def embed_dev(self, batch):
        noise = random.gauss(0, 1) + np.random.randn() + torch.rand(())
        return super().embed_dev(batch) + noise
"""


def test_random_numbers_of_every_source_go_on(
    simcse: Undisturbed, clock: Clock, tmp_path: Path
) -> None:
    plugin, one, other = tmp_path / "drawing.py", tmp_path / "one", tmp_path / "other"
    plugin.write_text(WATCHED.format(name="simcse") + DRAWING, encoding="utf-8")
    trial = Trial(str(plugin), dict(simcse.trial.configuration), seed=3)
    alone = Undisturbed(trial, one, run(trial, one))
    with clock.killed(trial, 4):
        run(trial, other)
    # What the new process drew before does not matter.
    random.seed(9), np.random.seed(9), torch.manual_seed(9)
    alone.is_run(other)


@pytest.mark.parametrize(("name", "setting"), [("simcse", "unsup"), ("diffaug", "semisup")])
def test_thinned_curves_are_those_of_an_undisturbed_trial(
    name: str, setting: str, trial_of: TrialOf, clock: Clock, tmp_path: Path, monkeypatch: Any
) -> None:
    """More steps than are kept; those that are dropped lie before and after the kill."""
    monkeypatch.setattr(steps, "KEPT_STEPS", 3)
    monkeypatch.setattr(shared_stages, "STATE_INTERVAL", 2)
    trial = trial_of(name, setting=setting)
    alone = run(trial, tmp_path / "one")
    with clock.killed(trial, 4, checkpoints=0.4):
        run(trial, tmp_path / "other")
    found = run(trial, tmp_path / "other")
    assert found.history == alone.history
    last = [each["step"] for each in found.history if each["metric"] == "gradient_norm"]
    assert last == ([1, 4] if name == "simcse" else [1, 2, 4, 6, 9])


def test_training_goes_on_from_the_last_checkpoint_and_its_seconds_add_up(
    simcse: Undisturbed, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(seconds))
    # A checkpoint after each step divides the time of the last one off as well.
    monkeypatch.setenv("HARNESS_CHECKPOINT_MINUTES", "0")
    with clock.killed(simcse.trial, 6):
        run(simcse.trial, tmp_path / "other")
    with counted(simcse.trial) as batches:
        record = run(simcse.trial, tmp_path / "other")
    assert len(batches) == 1, "of seven steps one is left"
    assert (record.steps, record.training_seconds) == (7, 7.0)
    # Those of the trial without a kill, and of what the second process did again.
    whole = run(simcse.trial, tmp_path / "whole")
    assert (record.wall_seconds or 0) >= (whole.wall_seconds or 0)
    assert (record.evaluation_seconds or 0) >= (whole.evaluation_seconds or 0)


def test_asked_to_give_way_it_saves_and_goes_on_later(
    simcse: Undisturbed, clock: Clock, tmp_path: Path
) -> None:
    other, batches = tmp_path / "other", itertools.count(1)
    running = other / "running"

    def asks() -> None:
        clock.now += 1  # the file is looked for once in a second
        if next(batches) == 3:
            (running / GIVE_WAY).touch()

    running.mkdir(parents=True)
    with heard(simcse.trial, asks), pytest.raises(Interrupted, match="stopped after 3 of 7 steps"):
        run(simcse.trial, other)
    assert [path.name for path in running.iterdir()] == [CHECKPOINT]
    with counted(simcse.trial) as left:
        simcse.is_run(other)
    assert len(left) == 4


def test_a_short_trial_writes_no_checkpoint(
    simcse: Undisturbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is there even in the last batch."""
    monkeypatch.delenv("HARNESS_CHECKPOINT_MINUTES")
    running, checkpoints = tmp_path / "other" / "running", []
    with heard(simcse.trial, lambda: checkpoints.append((running / CHECKPOINT).exists())):
        run(simcse.trial, tmp_path / "other")
    assert checkpoints == [False] * 7


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def begins_anew(simcse: Undisturbed, folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    """The line that says why a trial does not go on from its checkpoint."""
    caplog.clear()
    with counted(simcse.trial) as batches, caplog.at_level(logging.WARNING):
        simcse.is_run(folder)
    assert len(batches) == 7
    (line,) = caplog.messages
    assert line.startswith("the trial begins at step 0: its checkpoint ")
    return line


def test_a_damaged_checkpoint_is_reported_and_the_trial_begins_anew(
    simcse: Undisturbed, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = tmp_path / "whole"
    with clock.killed(simcse.trial, 4):
        run(simcse.trial, whole)
    for number, damage in enumerate([flipped, cut, lambda path: path.write_bytes(b"")]):
        other = tmp_path / str(number)
        shutil.copytree(whole, other)
        damage(other / "running" / CHECKPOINT)
        assert "cannot be read" in begins_anew(simcse, other, caplog)


def test_a_checkpoint_of_another_trial_or_machine_is_not_used(
    simcse: Undisturbed,
    trial_of: TrialOf,
    clock: Clock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    colder = trial_of("simcse", temperature=0.1)
    with clock.killed(colder, 4):
        run(colder, tmp_path / "trial")
    with monkeypatch.context() as patch, clock.killed(simcse.trial, 4):
        patch.setattr(torch, "get_num_threads", lambda: 7)
        run(simcse.trial, tmp_path / "threads")
    for other in ("trial", "threads"):
        assert f" is of {other} " in begins_anew(simcse, tmp_path / other, caplog)


def test_a_full_disk_costs_the_checkpoint_alone(
    simcse: Undisturbed, clock: Clock, full_disk: FullDisk, tmp_path: Path, caplog: Any
) -> None:
    def passes() -> None:
        clock.now += 60

    with full_disk(), heard(simcse.trial, passes), caplog.at_level(logging.WARNING):
        simcse.is_run(tmp_path / "other", weights_digest=None)  # they are not kept either
    assert FULL in caplog.text
    for lost in ("checkpoint", "weights"):
        assert f"the {lost} {tmp_path / 'other'}" in caplog.text


def test_minutes_that_are_no_number_are_one_sentence(
    simcse: Undisturbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CHECKPOINT_MINUTES", "often")
    assert run(simcse.trial, tmp_path / "other").reason == (
        'HARNESS_CHECKPOINT_MINUTES=often: write a number of minutes, for example "5"'
    )
