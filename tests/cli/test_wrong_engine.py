"""Records that DeepSpeed trained wrongly with accumulation are named, and run again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import UserError
from harness.export.exportable import exportable
from harness.files import content_digest
from harness.training.saved_state import SavedState
from harness.trials.lookup import IN_A_METHOD, provide
from harness.trials.merging import merge
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import FACTS
from tests.cli.conftest import Shown
from tests.trials.test_store import record

WRONG = {
    "zero 1": {"engine": "deepspeed", "workers": 2, "zero": 1},
    "zero 2": {"engine": "deepspeed", "workers": 2, "zero": 2, "offload_optimiser": True},
}
RIGHT = {
    "one process": ({"engine": "single", "workers": 1, "zero": 2}, 2, 5),
    "ddp": ({"engine": "ddp", "workers": 2, "zero": 2}, 2, 5),
    "zero 3": ({"engine": "deepspeed", "workers": 2, "zero": 3}, 2, 5),
    "no accumulation": ({"engine": "deepspeed", "workers": 2, "zero": 2}, 1, 5),
    "a later protocol": ({"engine": "deepspeed", "workers": 2, "zero": 2}, 2, 6),
}
SAID = "it was trained wrongly: engine=deepspeed with zero="


def trained(engine: dict[str, Any], accumulation: int, protocol: int | None, **more: Any) -> Record:
    number = more.pop("number", 1)
    values = {**record(number).configuration, "accumulation": accumulation}
    return record(number, engine=engine, configuration=values, protocol=protocol, **more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def compact(monkeypatch: pytest.MonkeyPatch) -> Callable[[Store], int]:
    """compact(store): compact it by the harness that took wrong records for right ones."""

    def call(store: Store) -> int:
        with monkeypatch.context() as before:
            before.setattr("harness.trials.record_faults.LAST_WRONG", -1)
            return store.compact(at_least=1)

    return call


@pytest.mark.slow
@pytest.mark.parametrize("engine", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("protocol", [None, 1, 5])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_wrong_record_is_replaced(
    store: Store, compact: Any, engine: dict[str, Any], protocol: int | None, *, compacted: bool
) -> None:
    wrong, other = trained(engine, 4, protocol), trained({"engine": "ddp"}, 4, 5, number=2)
    for each in (wrong, other):
        store.write(each)
    assert not compacted or compact(store) == 2
    found = store.get(wrong.key)
    assert found is not None
    assert found.status == "failed"
    assert str(found.reason).startswith(SAID)
    assert store.finished_keys() == {other.key}
    right = replace(wrong, test={"graded": 60.0}, protocol=6)
    assert store.finished_or_run(wrong.key, "the trial", lambda: right) == right
    assert store.get(wrong.key) == right
    assert store.finished_keys() == {right.key, other.key}
    assert len([each for each in store.read().records() if each.finished]) == 2
    store.compact(at_least=1)
    assert store.get(wrong.key) == right


@pytest.mark.parametrize(("engine", "accumulation", "protocol"), RIGHT.values(), ids=RIGHT)
def test_other_records_count(
    store: Store, engine: dict[str, Any], accumulation: int, protocol: int
) -> None:
    right = trained(engine, accumulation, protocol)
    store.write(right)
    assert store.get(right.key) == right
    assert store.read().records() == [right]


def test_every_verb_says_so(shown: Shown, store: Store) -> None:
    wrong = trained(WRONG["zero 2"], 4, 5)
    store.write(wrong)
    table = shown("table", "--store", store.folder)
    assert "1 failed trial" in table
    listed = shown("list", "trials", "--store", store.folder)
    for out in (table, listed, shown("show", wrong.key, "--store", store.folder)):
        assert SAID in " ".join(out.split())
    assert "failed" in listed
    assert "41.00" not in listed
    assert "finished" not in listed


def made_from(wrong: Record, number: int, *, protocol: int | None = 5, **more: Any) -> Record:
    """An evaluation of a trial, unless `more` says that it is another trial."""
    evaluation = {"role": "evaluation", "evaluates": wrong.key, "suite": "graded"}
    values = {**record(number).configuration, "accumulation": 4}
    common: dict[str, Any] = {"protocol": protocol, "configuration": values}
    return record(number, **common, **(more or evaluation))


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("protocol", [None, 5])
def test_what_was_made_from_a_wrong_trial_counts_as_failed(
    store: Store, compact: Any, protocol: int | None, *, compacted: bool
) -> None:
    """Its evaluation, a trial that starts from its encoder, and an evaluation of that one."""
    wrong = trained(WRONG["zero 2"], 4, protocol)
    start = made_from(wrong, 2, protocol=protocol, encoder=f"tiny-bert@{wrong.key}")
    later = made_from(start, 3, protocol=protocol, encoder=f"tiny-bert@{start.key}")
    evaluated = made_from(wrong, 4, protocol=protocol), made_from(later, 5, protocol=protocol)
    descendants = [start, later, *evaluated]
    right = trained({"engine": "ddp"}, 4, 5, number=6)
    others = [right, made_from(right, 7), made_from(right, 8, encoder=f"tiny-bert@{right.key}")]
    # The files of a store are read in the order of their names: a parent may come last.
    for each in (*descendants, *others, replace(wrong, key="f" * 32), wrong):
        store.write(each)
    assert not compacted or compact(store) == 9
    assert store.finished_keys() == {each.key for each in others}
    for each in descendants:
        [found] = store.matching(each.key)
        parent = (each.evaluates or each.encoder.partition("@")[2])[:10]
        assert str(found.reason).startswith(f"it was made from trial {parent}, which was trained")
        assert store.get(each.key) == replace(each, status="failed", reason=found.reason)
    assert [store.get(each.key) for each in others] == others


@pytest.mark.slow
def test_a_parent_in_the_other_store_is_found_after_a_merge(tmp_path: Path) -> None:
    wrong = trained(WRONG["zero 1"], 2, 5)
    mine, theirs = Store(tmp_path / "mine"), Store(tmp_path / "theirs")
    mine.write(wrong)
    theirs.write(evaluated := made_from(wrong, 2))
    assert theirs.finished_keys() == {evaluated.key}
    merge([theirs], mine)
    assert mine.finished_keys() == set()


def test_the_encoder_of_a_wrong_trial_is_not_taken(store: Store, tmp_path: Path) -> None:
    """Also where the cache has it, and where the file of its weights is named."""
    wrong = trained(WRONG["zero 1"], 2, 5)
    weights = {f"{IN_A_METHOD}weight": torch.zeros(2)}
    facts = {name: getattr(wrong, name) for name in FACTS}
    SavedState(weights, facts=facts).write(store.weights(wrong.key))
    digest = content_digest(store.weights(wrong.key))
    right = replace(wrong, engine={"engine": "single"}, weights_digest=digest)
    other = Store(tmp_path / "other")
    other.write(right)
    other.keep_weights(wrong.key, store.weights(wrong.key))
    provide(other, f"tiny-bert@{wrong.key}")
    store.write(replace(wrong, weights_digest=digest))
    with pytest.raises(UserError, match=f"has not finished \\({SAID}1"):
        provide(store, f"tiny-bert@{wrong.key}")
    for name in (wrong.key, str(store.weights(wrong.key))):
        with pytest.raises(UserError, match=f"has not finished \\({SAID}1"):
            exportable(name, store)()
