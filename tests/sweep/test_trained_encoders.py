"""Encoders that another method of the sweep trains first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.sweeps.spaces.search import Search, implied
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
def found(searches_of: Found) -> Found:
    """found(text, ...): the searches of a search space, narrowed by the options."""
    return lambda text=SPACE, **options: searches_of(text, **options)


def test_a_search_names_the_one_that_trains_its_encoder(found: Found) -> None:
    plain, trained, simcse = found()
    assert trained.label == "pooling unsup tiny-bert trained by simcse"
    assert (plain.trainers, trained.trainers) == ({}, {"encoder": simcse})
    assert not implied([plain, trained, simcse])
    assert implied([trained]) == [simcse]
    assert not trained.ready


def test_the_key_contains_what_the_trial_starts_from(found: Found) -> None:
    plain, trained, simcse = found()
    keys = []
    for rate in (1e-3, 2e-3):
        trainer = simcse.training_trial({**simcse.fixed, "learning_rate": rate})
        assert (trainer.seed, trainer.role) == (3, "final")
        on_trained = trained.on_models_of({"encoder": trainer})
        assert on_trained.ready
        [trial] = on_trained.trials([on_trained.fixed], "final")
        assert trial.starts == [key(trainer)]
        assert trial.label == f"pooling unsup tiny-bert@{key(trainer)[:10]} seed 3"
        keys.append(key(trial))
    assert len({*keys, key(plain.trials([plain.fixed], "final")[0])}) == 3


def test_the_command_line_changes_the_encoder_of_both(found: Found) -> None:
    narrowed = found(methods=("pooling",), encoders=("mini-bert",), seeds=(7,))
    assert [each.config.encoder for each in narrowed] == ["mini-bert", "mini-bert"]
    trainer = narrowed[1].trainers["encoder"]
    assert trainer.config.encoder == "mini-bert"
    assert trainer.repeats["final"].seeds == [7]
    # A method that is not in the space has its published values.
    trainer = found(SPACE.partition("  simcse:\n")[0])[1].trainers["encoder"]
    assert trainer.config.model_dump()["learning_rate"] == 3e-5


TEACHERS = """\
setting: unsup
suite: graded
select: {metric: graded-dev}
final: {seeds: [3, 4]}
encoders: [tiny-bert]
set: {max_steps: 2, batch_size: 8, precision: fp32, sentences: graded-sentences}
methods:
  rankcse:
    set:
      teacher: {trained_by: simcse}
      second_teacher: {encoder: tiny-bert, trained_by: mixcse}
  simcse:
    grid: {learning_rate: [1.0e-3, 2.0e-3]}
  mixcse:
"""


def test_a_teacher_is_what_another_search_trains(found: Found) -> None:
    rankcse, simcse, mixcse = found(TEACHERS)
    assert rankcse.trainers == {"teacher": simcse, "second_teacher": mixcse}
    assert rankcse.label == (
        "rankcse unsup tiny-bert, teacher trained by simcse, second_teacher trained by mixcse"
    )
    assert not rankcse.ready
    keys = set()
    for rate in (1e-3, 2e-3):
        teachers = {
            "teacher": simcse.training_trial({**simcse.fixed, "learning_rate": rate}),
            "second_teacher": mixcse.training_trial(mixcse.fixed),
        }
        ready = rankcse.on_models_of(teachers)
        assert ready.ready
        [trial, _] = ready.trials([ready.fixed], "final")
        assert trial.starts == [key(each) for each in teachers.values()]
        values = trial.config.model_dump()
        assert values["teacher"] == f"tiny-bert@{key(teachers['teacher'])}"
        keys.add(key(trial))
    plain = {**rankcse.fixed}
    assert (plain["teacher"], plain["second_teacher"]) == ("tiny-bert", "tiny-bert")
    keys.add(key(rankcse.trials([plain], "final")[0]))
    assert len(keys) == 3


def test_a_teacher_without_a_model_starts_from_that_of_the_search(found: Found) -> None:
    """So a rehearsal on another encoder has a teacher on it, too; a value of --set is the last."""
    [rankcse] = found(TEACHERS, methods=("rankcse",), encoders=("mini-bert",))
    started = {name: each.config.encoder for name, each in rankcse.trainers.items()}
    assert started == {"teacher": "mini-bert", "second_teacher": "tiny-bert"}
    assert len(implied([rankcse])) == 2
    [rankcse] = found(TEACHERS, methods=("rankcse",), values={"teacher": "tiny-bert"})
    assert [*rankcse.trainers] == ["second_teacher"]


CHAIN = """\
  pooling:
    encoders: [{encoder: tiny-bert, trained_by: rankcse}]
    set: {pooling: cls}
"""


def test_the_teacher_of_a_trainer_is_trained_before_it(found: Found) -> None:
    for methods in ((), ("pooling",), ("rankcse", "pooling")):
        pooling = found(TEACHERS + CHAIN, methods=methods)[-1]
        names = [each.name for each in implied([pooling])]
        assert names == ["simcse", "mixcse", "rankcse"]
        assert pooling.label == "pooling unsup tiny-bert trained by rankcse"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("{trained_by: simcse}", "{trained_by: rankcse}", "line 10: methods.rankcse.set.teacher."
         "trained_by: rankcse cannot begin before rankcse has ended"),
        ("{trained_by: simcse}", "{trained_by: simcze}", 'unknown method "simcze"'),
        ("{trained_by: simcse}", "{trained_by: simcse, encodr: tiny-bert}", "line 10: "
         "methods.rankcse.set.teacher.encodr: unknown key"),
        ("{trained_by: simcse}", "{trained_by: pooling}", "pooling does not train its encoder"),
        ("teacher: {trained_by: simcse}", "sentences: {trained_by: simcse}", "line 10: "
         "methods.rankcse.set.sentences: sentences names no model that rankcse loads"),
        ("teacher: {trained_by: simcse}", "techer: {trained_by: simcse}", 'no hyperparameter '
         '"techer"; did you mean "teacher"?'),
    ],
)  # fmt: skip
def test_a_mistake_about_a_teacher_is_told_with_its_line(
    old: str, new: str, sentence: str, found: Found
) -> None:
    with pytest.raises(UserError) as refused:
        found(TEACHERS.replace(old, new))
    assert sentence in str(refused.value)


def test_two_methods_that_wait_for_each_other_are_refused(found: Found) -> None:
    circle = "  diffcse:\n    set: {generator: {trained_by: rankcse}}\n"
    text = TEACHERS.replace("{trained_by: simcse}", "{trained_by: diffcse}")
    with pytest.raises(UserError, match="diffcse cannot begin before rankcse has ended"):
        found(text + circle)


PRUNED = """\
  esimcse:
    encoders: [{encoder: tiny-bert, trained_by: simcse}]
    set: {max_steps: 6, evaluation_interval: 1}
    grid: {learning_rate: [1.0e-9, 1.0e-1, 3.0e-1, 5.0e-1, 9.0e-1]}  # the first one loses nothing
pruner: {name: asha, reduction_factor: 2}
"""


@pytest.mark.slow
def test_the_sweep_trains_the_teachers_first(serially: Any, tmp_path: Path) -> None:
    """What the teachers are is chosen on dev; the students begin when these have ended."""
    path, store = tmp_path / "space.yaml", tmp_path / "store"
    path.write_text(TEACHERS + CHAIN + PRUNED, encoding="utf-8")
    words = ["rankcse", "pooling", "esimcse", path, "--store", store]
    planned = serially(*words, "--dry-run").out
    assert planned.index("simcse unsup") < planned.index("rankcse unsup")
    assert "14 trials to run" in planned
    answer = serially(*words)
    assert answer.code == 0, answer.out + answer.err
    records = Store(store).read().records()
    teachers = {
        each.method: each
        for each in records
        if each.role == "final" and each.method in ("simcse", "mixcse")
    }
    searched = [each for each in records if (each.method, each.role) == ("simcse", "search")]
    best = max(searched, key=lambda each: each.dev["graded-dev"])
    assert teachers["simcse"].configuration["learning_rate"] == best.configuration["learning_rate"]
    students = [each for each in records if each.method == "rankcse"]
    assert sorted(each.seed for each in students) == [3, 4]
    for each in students:
        assert each.configuration["teacher"] == f"tiny-bert@{teachers['simcse'].key}"
        assert each.configuration["second_teacher"] == f"tiny-bert@{teachers['mixcse'].key}"
        assert each.started > max(one.started for one in teachers.values())
    first = next(each for each in students if each.seed == 3)
    [pooled] = [each for each in records if each.method == "pooling"]
    assert pooled.encoder == f"tiny-bert@{first.key}"
    assert pooled.dev == first.dev
    # A search with a pruner begins with the encoder, too, which is trained once for all.
    pruned = [each for each in records if each.method == "esimcse"]
    assert {each.encoder for each in pruned} == {f"tiny-bert@{teachers['simcse'].key}"}
    statuses = [each.status for each in pruned if each.role == "search"]
    assert len(statuses) == 5
    assert {*statuses} == {"finished", "pruned"}
    assert [each.status for each in pruned if each.role == "final"] == ["finished"] * 2
    assert len(records) == 2 + 1 + 1 + 2 + 1 + 5 + 2
    assert "\n0 trials to run" in serially(*words, "--dry-run").out
