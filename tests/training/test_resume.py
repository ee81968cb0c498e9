"""A trial that is killed at any step goes on from its checkpoint, and its record is the same.

It is the same in every digit, for every method, and so are the trained weights.
"""

import itertools
import logging
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from harness.data.hub import model_folder
from harness.errors import Interrupted
from harness.plugin import registry
from harness.plugin_check.check import TINY
from harness.training import shared_stages, steps
from harness.training.saved_state import Checkpoint
from harness.trials.record import Record
from harness.trials.run import CHECKPOINT, GIVE_WAY, attempt
from harness.trials.trial import Trial
from tests.matrix import trained_rows
from tests.sweeping import write_few_pairs

pytestmark = pytest.mark.slow

OF_THE_RUN = {"started", "sentences_per_second", "peak_host_memory_mib"}
SMALL = {
    **TINY,
    "max_steps": 7,
    "evaluation_interval": 3,
    "learning_rate": 1e-3,
    "epochs": 9,
    "precision": "fp32",
    "stage1_steps": 5,
    "stage1_batch_size": 8,
    "auxiliary_batch_size": 8,
    "classification_batch_size": 8,
    "classification_max_steps": 4,
    "teacher": "tiny-bert",
    "second_teacher": "tiny-bert",
}
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
    """Every method that trains, in its first setting, and the variants above.

    tests/methods/test_contract.py saves and loads every method in every setting.
    """
    for name, setting in dict(reversed([*trained_rows()])).items():
        yield pytest.param(name, {"setting": setting}, id=f"{name}-{setting}")
    for name, values in VARIANTS:
        shown = "-".join(str(value) for value in values.values())
        yield pytest.param(name, values, id=f"{name}-{shown}")


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


@pytest.fixture
def trial_of(tmp_path: Path, narrow: str) -> TrialOf:
    """trial_of(method, **configuration): a trial of seven steps, measured on few sentences."""
    suite = write_few_pairs(tmp_path)

    def make(name: str, **values: Any) -> Trial:
        given = registry.load(name).config_type.model_fields
        small = {
            key: value
            for key, value in {**SMALL, "suite": str(suite), "encoder": narrow}.items()
            if key in given and len(get_args(given[key].annotation)) != 1
        }
        return Trial(name, {**small, **values}, seed=3)

    return make


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed(trial: Trial, after: int) -> Iterator[list[int]]:
    """In the block, the method dies in the batch after so many; yields a list with their number."""
    method, batches = trial.plugin.method, [0]
    losses = method.losses

    def dies(*given: Any) -> Any:
        if batches[0] == after:
            raise Killed
        batches[0] += 1
        return losses(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "losses", dies)
        yield batches


Run = Callable[..., Record]


@pytest.fixture
def run(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """run(trial, place): run it with weights and a running folder of that place's own.

    Places do not share the states of shared stages either.
    """
    monkeypatch.setenv("HARNESS_CHECKPOINT_MINUTES", "0")

    def go(trial: Trial, place: str) -> Record:
        folder = tmp_path / place
        if not folder.exists():
            shutil.rmtree(cache / "stages", ignore_errors=True)
            folder.mkdir()
        weights, running = folder / "weights.safetensors", folder / "running"
        return attempt(trial, lambda _: None, weights, running)

    return go


def same(record: Record) -> dict[str, Any]:
    """The fields of a record that do not depend on the time."""
    assert record.finished, record.reason
    return {
        each.name: getattr(record, each.name)
        for each in fields(Record)
        if each.name not in OF_THE_RUN and not each.name.endswith("_seconds")
    }


def same_weights(folder: Path) -> None:
    one, other = (load_file(folder / place / "weights.safetensors") for place in ("one", "other"))
    assert one.keys() == other.keys()
    assert [name for name in one if not one[name].equal(other[name])] == []


def seldom(generator: random.Random) -> Callable[..., bool]:
    """`Checkpoint.due` at some of the steps, so that some are done again."""
    return lambda _self, *, ends: ends or generator.random() < 0.4


@pytest.mark.parametrize(("name", "values"), list(settings()))
def test_killed_and_resumed_it_is_the_same_trial(
    name: str,
    values: Mapping[str, Any],
    run: Run,
    trial_of: TrialOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = trial_of(name, **values)
    with killed(trial, -1) as batches:
        alone = same(run(trial, "one"))
    generator = random.Random(f"{name} {values}")
    monkeypatch.setattr(Checkpoint, "due", seldom(generator))
    with killed(trial, generator.randrange(1, batches[0])), pytest.raises(Killed):
        run(trial, "other")
    assert same(run(trial, "other")) == alone
    same_weights(tmp_path)


@pytest.mark.parametrize("step", [1, 4, 5, 9])
def test_a_shared_stage_may_be_killed_anywhere(
    step: int, run: Run, trial_of: TrialOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own states, at every second step, and the checkpoint, at some, meet in any order."""
    monkeypatch.setattr(shared_stages, "STATE_INTERVAL", 2)
    monkeypatch.setattr(Checkpoint, "due", seldom(random.Random(step)))
    trial = trial_of("diffaug", setting="semisup")
    alone = run(trial, "one")
    with killed(trial, step), pytest.raises(Killed):
        run(trial, "other")
    assert same(run(trial, "other")) == same(alone)
    same_weights(tmp_path)


DRAWING = '''"""Every random source is asked in training and on dev."""

import random

import numpy as np
import torch
from methods.simcse.method import Method as SimCSE


class Method(SimCSE):
    def losses(self, batch, stage):
        noise = random.random() + random.gauss(0, 1) + np.random.rand() + np.random.randn()
        return {name: loss * (1 + noise) for name, loss in super().losses(batch, stage).items()}

    def embed_dev(self, batch):
        noise = random.gauss(0, 1) + np.random.randn() + torch.rand(())
        return super().embed_dev(batch) + noise
'''


def test_a_trial_may_be_killed_again(run: Run, trial_of: TrialOf, tmp_path: Path) -> None:
    """In the batch after that from which it goes on, and in a later one."""
    trial = trial_of("simcse")
    alone = run(trial, "one")
    for batches in (3, 1, 2):
        with killed(trial, batches), pytest.raises(Killed):
            run(trial, "other")
    assert same(run(trial, "other")) == same(alone)
    same_weights(tmp_path)


def test_random_numbers_of_every_source_go_on(run: Run, trial_of: TrialOf, tmp_path: Path) -> None:
    plugin = tmp_path / "drawing.py"
    plugin.write_text(DRAWING, encoding="utf-8")
    trial = Trial(str(plugin), dict(trial_of("simcse").configuration), seed=3)
    alone = run(trial, "one")
    with killed(trial, 4), pytest.raises(Killed):
        run(trial, "other")
    # What the new process drew before does not matter.
    random.seed(9), np.random.seed(9), torch.manual_seed(9)
    assert same(run(trial, "other")) == same(alone)
    same_weights(tmp_path)


@pytest.mark.parametrize(("name", "setting"), [("simcse", "unsup"), ("diffaug", "semisup")])
def test_thinned_curves_are_those_of_an_undisturbed_trial(
    name: str, setting: str, run: Run, trial_of: TrialOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More steps than are kept; those that are dropped lie before and after the kill."""
    monkeypatch.setattr(steps, "KEPT_STEPS", 3)
    monkeypatch.setattr(shared_stages, "STATE_INTERVAL", 2)
    trial = trial_of(name, setting=setting)
    alone = run(trial, "one")
    monkeypatch.setattr(Checkpoint, "due", seldom(random.Random(1)))
    with killed(trial, 4), pytest.raises(Killed):
        run(trial, "other")
    found = run(trial, "other")
    assert found.history == alone.history
    last = [each["step"] for each in found.history if each["metric"] == "gradient_norm"]
    assert last == ([1, 4] if name == "simcse" else [1, 2, 4, 6, 9])


def test_training_goes_on_from_the_last_checkpoint_and_its_seconds_add_up(
    run: Run, trial_of: TrialOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "due", lambda *_, **__: True)
    seconds = itertools.count()
    monkeypatch.setattr("harness.training.loop.time.perf_counter", lambda: next(seconds))
    trial = trial_of("simcse")
    with killed(trial, 6), pytest.raises(Killed):
        run(trial, "other")
    with killed(trial, -1) as batches:
        record = run(trial, "other")
    assert batches == [1], "of seven steps one is left"
    assert (record.steps, record.training_seconds) == (7, 7.0)


def test_asked_to_give_way_it_saves_and_goes_on_later(
    run: Run, trial_of: TrialOf, tmp_path: Path
) -> None:
    trial = trial_of("simcse")
    alone = run(trial, "one")
    running = tmp_path / "other" / "running"
    losses, counts = trial.plugin.method.losses, itertools.count(1)

    def asks(*given: Any) -> Any:
        if next(counts) == 3:
            (running / GIVE_WAY).touch()
        return losses(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CHECKPOINT_MINUTES", "1000")
        patch.setattr("harness.training.interruption.ASK_SECONDS", 0.0)
        patch.setattr(trial.plugin.method, "losses", asks)
        running.mkdir(parents=True)
        with pytest.raises(Interrupted, match="stopped after 3 of 7 steps"):
            run(trial, "other")
    assert [path.name for path in running.iterdir()] == [CHECKPOINT]
    with killed(trial, -1) as batches:
        assert same(run(trial, "other")) == same(alone)
    assert batches == [4]
    same_weights(tmp_path)


def test_a_short_trial_writes_no_checkpoint(
    run: Run, trial_of: TrialOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "write", lambda *_: pytest.fail("a checkpoint is written"))
    monkeypatch.delenv("HARNESS_CHECKPOINT_MINUTES")
    run(trial_of("simcse"), "one")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize("damage", [flipped, cut, lambda path: path.write_bytes(b"")])
def test_a_damaged_checkpoint_is_reported_and_the_trial_begins_anew(
    damage: Callable[[Path], object],
    run: Run,
    trial_of: TrialOf,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    trial = trial_of("simcse")
    alone = run(trial, "one")
    with killed(trial, 4), pytest.raises(Killed):
        run(trial, "other")
    damage(tmp_path / "other" / "running" / CHECKPOINT)
    with killed(trial, -1) as batches, caplog.at_level(logging.WARNING):
        assert same(run(trial, "other")) == same(alone)
    assert batches == [7]
    (line,) = caplog.messages
    assert line.startswith("the trial begins at step 0: its checkpoint ")
    assert "cannot be read" in line


@pytest.mark.parametrize("other", ["configuration", "threads"])
def test_a_checkpoint_of_another_trial_or_machine_is_not_used(
    other: str,
    run: Run,
    trial_of: TrialOf,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = trial_of("simcse")
    alone = run(trial, "one")
    before = trial_of("simcse", temperature=0.1) if other == "configuration" else trial
    with monkeypatch.context() as patch, killed(before, 4):
        if other == "threads":
            patch.setattr(torch, "get_num_threads", lambda: 7)
        with pytest.raises(Killed):
            run(before, "other")
    with killed(trial, -1) as batches, caplog.at_level(logging.WARNING):
        assert same(run(trial, "other")) == same(alone)
    assert batches == [7]
    (line,) = caplog.messages
    assert line.startswith("the trial begins at step 0: its checkpoint ")
    assert f" is of {'trial' if other == 'configuration' else other} " in line


def test_a_full_disk_costs_the_checkpoint_alone(
    run: Run, trial_of: TrialOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    trial = trial_of("simcse")
    alone = run(trial, "one")
    monkeypatch.setattr("harness.training.saved_state.save_file", full)
    with caplog.at_level(logging.WARNING):
        # The trained weights are not kept either.
        assert same(run(trial, "other")) == same(alone) | {"weights_digest": None}
    assert "No space left on device" in caplog.text


def test_minutes_that_are_no_number_are_one_sentence(
    run: Run, trial_of: TrialOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CHECKPOINT_MINUTES", "often")
    assert run(trial_of("simcse"), "one").reason == (
        'HARNESS_CHECKPOINT_MINUTES=often: write a number of minutes, for example "5"'
    )
