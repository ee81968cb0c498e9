"""Records that DeepSpeed trained wrongly with accumulation are named, and run again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.trials.record import Record
from harness.trials.store import Store
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


@pytest.mark.slow
@pytest.mark.parametrize("engine", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("protocol", [None, 1, 5])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_wrong_record_is_replaced(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    engine: dict[str, Any],
    protocol: int | None,
    *,
    compacted: bool,
) -> None:
    wrong = trained(engine, 4, protocol)
    store.write(wrong)
    store.write(trained({"engine": "ddp"}, 4, 5, number=2))
    if compacted:
        with monkeypatch.context() as before:  # by the harness that took it for a right one
            before.setattr("harness.trials.wrong_engine.LAST_WRONG", -1)
            assert store.compact(at_least=1) == 2
    found = store.get(wrong.key)
    assert found is not None
    assert found.status == "failed"
    assert str(found.reason).startswith(SAID)
    assert store.finished_keys() == {f"{2:032x}"}
    right = replace(wrong, test={"graded": 60.0}, protocol=6)
    assert store.finished_or_run(wrong.key, "the trial", lambda: right) == right
    assert store.get(wrong.key) == right
    assert sorted(each.key for each in store.read().records() if each.finished) == sorted(
        [right.key, f"{2:032x}"]
    )
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


def test_every_verb_says_so(harness: Callable[..., Any], store: Store) -> None:
    wrong = trained(WRONG["zero 2"], 4, 5)
    store.write(wrong)
    table = harness("table", "--store", store.folder)
    assert "1 failed trial" in table.out
    assert SAID in " ".join(table.out.split())
    shown = harness("show", wrong.key, "--store", store.folder)
    assert SAID in " ".join(shown.out.split())
    listed = harness("list", "trials", "--store", store.folder)
    assert "failed" in listed.out
    assert SAID in listed.out
    assert "41.00" not in listed.out
    assert "finished" not in listed.out
