"""Encoders that another method of the sweep trains first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.sweeps.spaces.search import Search, implied
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import key

SPACE = """\
setting: unsup
suite: graded
select: {metric: graded-dev}
final: {seeds: [3, 4]}
encoders: [tiny-bert]
set: {max_steps: 2, batch_size: 8, precision: fp32, sentences: graded-sentences}
methods:
"""
POOLED = (
    SPACE
    + """\
  pooling:
    encoders: [tiny-bert, {encoder: tiny-bert, trained_by: simcse}]
    set: {pooling: cls}
"""
)
Found = Callable[..., list[Search]]


def test_a_search_starts_from_the_encoder_that_another_one_trains(searches_of: Found) -> None:
    """The key of a trial has what it starts from."""
    plain, trained, simcse = searches_of(POOLED + "  simcse:\n    set: {learning_rate: 1e-3}\n")
    assert trained.label == "pooling unsup tiny-bert trained by simcse"
    assert (plain.trainers, trained.trainers) == ({}, {"encoder": simcse})
    assert not implied([plain, trained, simcse])
    assert implied([trained]) == [simcse]
    assert not trained.ready
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


def test_the_command_line_changes_the_encoder_of_both(searches_of: Found) -> None:
    """A method that is not in the space has its published values."""
    narrowed = searches_of(POOLED, methods=("pooling",), encoders=("mini-bert",), seeds=(7,))
    assert [each.config.encoder for each in narrowed] == ["mini-bert", "mini-bert"]
    trainer = narrowed[1].trainers["encoder"]
    assert trainer.config.encoder == "mini-bert"
    assert trainer.repeats["final"].seeds == [7]
    assert trainer.config.model_dump()["learning_rate"] == 3e-5


TEACHERS = (
    SPACE
    + """\
  rankcse:
    set:
      teacher: {trained_by: simcse}
      second_teacher: {encoder: tiny-bert, trained_by: mixcse}
  simcse:
    grid: {learning_rate: [1.0e-3, 2.0e-3]}
  mixcse:
"""
)


def test_a_teacher_is_what_another_search_trains(searches_of: Found) -> None:
    rankcse, simcse, mixcse = searches_of(TEACHERS)
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
    assert {rankcse.fixed[name] for name in teachers} == {"tiny-bert"}
    keys.add(key(rankcse.trials([rankcse.fixed], "final")[0]))
    assert len(keys) == 3


CHAIN = """\
  pooling:
    encoders: [{encoder: tiny-bert, trained_by: rankcse}]
    set: {pooling: cls}
"""


def test_a_teacher_without_a_model_starts_from_that_of_the_search(searches_of: Found) -> None:
    """Also on another encoder; --set is last; the teacher of a trainer is trained before it."""
    [rankcse] = searches_of(TEACHERS, methods=("rankcse",), encoders=("mini-bert",))
    started = {name: trainer.config.encoder for name, trainer in rankcse.trainers.items()}
    assert started == {"teacher": "mini-bert", "second_teacher": "tiny-bert"}
    assert len(implied([rankcse])) == 2
    [rankcse] = searches_of(TEACHERS, methods=("rankcse",), values={"teacher": "tiny-bert"})
    assert [*rankcse.trainers] == ["second_teacher"]
    for methods in ((), ("pooling",), ("rankcse", "pooling")):
        pooling = searches_of(TEACHERS + CHAIN, methods=methods)[-1]
        assert [search.name for search in implied([pooling])] == ["simcse", "mixcse", "rankcse"]
        assert pooling.label == "pooling unsup tiny-bert trained by rankcse"


CIRCLE = "  diffcse:\n    set: {generator: {trained_by: rankcse}}\n"


def test_a_mistake_about_a_teacher_is_told_with_its_line(searches_of: Found) -> None:
    by_simcse, teacher = "{trained_by: simcse}", "teacher: {trained_by: simcse}"
    for old, new, sentence in (
        (by_simcse, "{trained_by: rankcse}", "line 10: methods.rankcse.set.teacher.trained_by: "
         "rankcse cannot begin before rankcse has ended"),
        (by_simcse, "{trained_by: diffcse}", "diffcse cannot begin before rankcse has ended"),
        (by_simcse, "{trained_by: simcze}", 'unknown method "simcze"'),
        (by_simcse, "{trained_by: simcse, encodr: tiny-bert}", "line 10: "
         "methods.rankcse.set.teacher.encodr: unknown key"),
        (by_simcse, "{trained_by: pooling}", "pooling does not train its encoder"),
        (teacher, "sentences: {trained_by: simcse}", "line 10: methods.rankcse.set.sentences: "
         "sentences names no model that rankcse loads"),
        (teacher, "techer: {trained_by: simcse}", 'no hyperparameter "techer"; did you mean '
         '"teacher"?'),
    ):  # fmt: skip
        with pytest.raises(UserError) as refused:
            searches_of(TEACHERS.replace(old, new) + (CIRCLE if "diffcse" in new else ""))
        assert sentence in str(refused.value)


PRUNED = """\
  esimcse:
    encoders: [{encoder: tiny-bert, trained_by: simcse}]
    set: {max_steps: 6, evaluation_interval: 1}
    grid: {learning_rate: [1.0e-9, 1.0e-1, 3.0e-1, 5.0e-1, 9.0e-1]}  # the first one loses nothing
pruner: {name: asha, reduction_factor: 2}
"""


@pytest.mark.slow
def test_the_sweep_trains_the_teachers_first(serially: Any, tmp_path: Path) -> None:
    """Teachers are chosen on dev; the students begin when these have ended."""
    path, store = tmp_path / "space.yaml", tmp_path / "store"
    path.write_text(TEACHERS + CHAIN + PRUNED, encoding="utf-8")
    words = ["rankcse", "pooling", "esimcse", path, "--store", store]
    planned = serially(*words, "--dry-run").out
    assert planned.index("simcse unsup") < planned.index("rankcse unsup")
    assert "14 trials to run" in planned
    answer = serially(*words)
    assert answer.code == 0, answer.out + answer.err
    records = Store(store).read().records()

    def of(method: str, role: str) -> list[Record]:
        found = [each for each in records if (each.method, each.role) == (method, role)]
        return sorted(found, key=lambda each: each.seed)

    teachers = {method: of(method, "final")[0] for method in ("simcse", "mixcse")}
    best = max(of("simcse", "search"), key=lambda each: each.dev["graded-dev"])
    assert teachers["simcse"].configuration["learning_rate"] == best.configuration["learning_rate"]
    students = of("rankcse", "final")
    assert [each.seed for each in students] == [3, 4]
    for student in students:
        assert student.configuration["teacher"] == f"tiny-bert@{teachers['simcse'].key}"
        assert student.configuration["second_teacher"] == f"tiny-bert@{teachers['mixcse'].key}"
        assert student.started > max(one.started for one in teachers.values())
    [pooled] = of("pooling", "final")
    assert pooled.encoder == f"tiny-bert@{students[0].key}"
    assert pooled.dev == students[0].dev
    # A search with a pruner begins with the encoder, too, which is trained once for all.
    pruned, finals = of("esimcse", "search"), of("esimcse", "final")
    assert {each.encoder for each in pruned + finals} == {f"tiny-bert@{teachers['simcse'].key}"}
    assert len(pruned) == 5
    assert {each.status for each in pruned} == {"finished", "pruned"}
    assert [each.status for each in finals] == ["finished"] * 2
    assert len(records) == 2 + 1 + 1 + 2 + 1 + 5 + 2
    assert "\n0 trials to run" in serially(*words, "--dry-run").out
