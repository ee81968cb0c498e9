"""Encoders that another method of the sweep trains first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.sweeps.spaces.overrides import Overrides, searches
from harness.sweeps.spaces.search import Search, implied
from harness.sweeps.spaces.space import load_space
from harness.trials.store import Store
from harness.trials.trial import key

SPACE = """\
setting: unsup
suite: graded
select: {metric: graded-dev}
search: {seeds: [42]}
final: {seeds: [3, 4]}
encoders: [tiny-bert]
set: {max_steps: 2, batch_size: 8, precision: fp32, sentences: graded-sentences}
methods:
  pooling:
    encoders: [tiny-bert, {encoder: tiny-bert, trained_by: simcse}]
    set: {pooling: cls}
  simcse:
    set: {learning_rate: 1e-3}
"""
Found = Callable[..., list[Search]]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    """found(text, ...): the searches of a search space, narrowed by the options."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)

    def load(text: str = SPACE, **options: Any) -> list[Search]:
        path = tmp_path / "space.yaml"
        path.write_text(text, encoding="utf-8")
        return searches(*load_space(path), Overrides(**options))

    return load


def test_a_search_names_the_one_that_trains_its_encoder(found: Found) -> None:
    plain, trained, simcse = found()
    assert trained.label == "pooling unsup tiny-bert trained by simcse"
    assert (plain.pretraining_search, trained.pretraining_search) == (None, simcse)
    assert not implied([plain, trained, simcse])
    assert implied([trained]) == [simcse]
    assert not trained.ready


def test_the_key_contains_what_the_trial_starts_from(found: Found) -> None:
    plain, trained, simcse = found()
    keys = []
    for rate in (1e-3, 2e-3):
        trainer = trained.pretraining_trial({**simcse.fixed, "learning_rate": rate})
        assert (trainer.seed, trainer.role) == (3, "final")
        on_trained = trained.on_encoder_of(trainer)
        assert on_trained.ready
        [trial] = on_trained.trials([on_trained.fixed], "final")
        assert trial.starts == [key(trainer)]
        assert trial.label == f"pooling unsup tiny-bert@{key(trainer)[:10]} seed 3"
        keys.append(key(trial))
    assert len({*keys, key(plain.trials([plain.fixed], "final")[0])}) == 3


def test_the_command_line_changes_the_encoder_of_both(found: Found) -> None:
    narrowed = found(methods=("pooling",), encoders=("mini-bert",), seeds=(7,))
    assert [each.config.encoder for each in narrowed] == ["mini-bert", "mini-bert"]
    trainer = narrowed[1].pretraining_search
    assert trainer is not None
    assert trainer.config.encoder == "mini-bert"
    assert trainer.repeats["final"].seeds == [7]


def test_a_method_that_is_not_in_the_space_has_its_published_values(found: Found) -> None:
    text = SPACE.partition("  simcse:\n")[0]
    trainer = found(text)[1].pretraining_search
    assert trainer is not None
    assert trainer.config.model_dump()["learning_rate"] == 3e-5


def run(*arguments: object) -> None:
    """Run the command in this process."""
    from typer.testing import CliRunner

    from harness.cli.verbs import app

    answer = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert answer.exit_code == 0, answer.output


@pytest.mark.slow
def test_a_run_starts_from_a_trained_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain [CLS] of the trained encoder is what SimCSE itself is measured by."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    store = Store(tmp_path / "store")
    words = ["--set", "suite=graded", "--store", store.folder]
    small = ["--set", "max_steps=2", "--set", "batch_size=8", "--set", "precision=fp32"]
    corpus = ["--set", "sentences=graded-sentences", "--set", "learning_rate=1e-3"]
    run("simcse", "--encoder", "tiny-bert", *words, *small, *corpus)
    [simcse] = store.read().records()
    encoder = f"tiny-bert@{simcse.key}"
    run("pooling", "--encoder", encoder, "--set", "pooling=cls", *words)
    [pooled] = [record for record in store.read().records() if record.method == "pooling"]
    assert pooled.encoder == encoder
    assert pooled.dev == simcse.dev
    assert pooled.test == simcse.test
    assert pooled.dev["graded-dev"] != simcse.dev_before


PRUNED = """\
  esimcse:
    encoders: [{encoder: tiny-bert, trained_by: simcse}]
    set: {max_steps: 6, evaluation_interval: 1}
    grid: {learning_rate: [1.0e-9, 1.0e-1, 3.0e-1, 5.0e-1, 9.0e-1]}  # the first one loses nothing
pruner: {name: asha, reduction_factor: 2}
"""


@pytest.mark.slow
def test_the_sweep_trains_the_encoder_first(serially: Any, tmp_path: Path) -> None:
    """The encoder is trained once for the search with a pruner and the method without a search."""
    path, store = tmp_path / "space.yaml", tmp_path / "store"
    path.write_text(SPACE + PRUNED, encoding="utf-8")
    words = ["pooling", "esimcse", path, "--store", store]
    planned = serially(*words, "--dry-run").out
    assert planned.index("simcse unsup") < planned.index("pooling unsup")
    assert f"{3 + 5 + 2} trials to run" in planned
    answer = serially(*words)
    assert answer.code == 0, answer.out + answer.err
    records = Store(store).read().records()
    assert sorted((each.method, each.seed) for each in records if each.method != "esimcse") == [
        ("pooling", 3), ("pooling", 3), ("simcse", 3)
    ]  # fmt: skip
    [simcse] = [each for each in records if each.method == "simcse"]
    dev = {each.encoder: each.dev for each in records if each.method == "pooling"}
    assert dev[f"tiny-bert@{simcse.key}"] == simcse.dev
    pruned = [each for each in records if each.method == "esimcse"]
    assert {each.encoder for each in pruned} == {f"tiny-bert@{simcse.key}"}
    statuses = [each.status for each in pruned if each.role == "search"]
    assert len(statuses) == 5
    assert {*statuses} == {"finished", "pruned"}
    assert [each.status for each in pruned if each.role == "final"] == ["finished"] * 2
    assert "\n0 trials to run" in serially(*words, "--dry-run").out
