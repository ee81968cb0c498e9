"""Records that DeepSpeed trained wrongly with accumulation are named, and run again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from harness.errors import UserError
from harness.export.exportable import exportable
from harness.files import content_digest
from harness.training.saved_state import SavedState
from harness.trials.lookup import IN_A_METHOD, provide
from harness.trials.merging import merge
from harness.trials.record import Record
from harness.trials.record_files import COMPACTED
from harness.trials.store import Store
from harness.trials.trial import FACTS
from tests.cli.conftest import Shown
from tests.trials.test_store import parquets, record

WRONG = {
    "zero 1": {"engine": "deepspeed", "workers": 2, "zero": 1},
    "zero 2": {"engine": "deepspeed", "workers": 2, "zero": 2, "offload_optimiser": True},
}
RIGHT: list[tuple[dict[str, Any], int, int]] = [
    ({"engine": "single", "workers": 1, "zero": 2}, 2, 5),
    ({"engine": "ddp", "workers": 2, "zero": 2}, 2, 5),
    ({"engine": "deepspeed", "workers": 2, "zero": 3}, 2, 5),
    ({"engine": "deepspeed", "workers": 2, "zero": 2}, 1, 5),  # no accumulation
    ({"engine": "deepspeed", "workers": 2, "zero": 2}, 2, 6),  # a later protocol
]
SAID = "it was trained wrongly: engine=deepspeed with zero="


def trained(engine: dict[str, Any], accumulation: int, protocol: int | None, **more: Any) -> Record:
    number = more.pop("number", 1)
    values = {**record(number).configuration, "accumulation": accumulation}
    return record(number, engine=engine, configuration=values, protocol=protocol, **more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def compact(store: Store) -> int:
    """Compact it as the harness did that took wrong records for right ones: rows as they are."""
    files = parquets(store)
    rows = pa.concat_tables([pq.ParquetFile(path).read() for path in files]).sort_by("key")
    pq.write_table(rows, store.folder / f"{COMPACTED}old.parquet")
    for path in files:
        path.unlink()
    return rows.num_rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "protocol", "compacted"),
    [("zero 1", None, True), ("zero 1", 1, False), ("zero 2", 5, False), ("zero 2", 1, True)],
)
def test_a_wrong_record_is_replaced(
    store: Store, engine: str, protocol: int | None, compacted: bool
) -> None:
    wrong, other = trained(WRONG[engine], 4, protocol), trained({"engine": "ddp"}, 4, 5, number=2)
    for row in (wrong, other):
        store.write(row)
    assert not compacted or compact(store) == 2
    failed = store.get(wrong.key)
    assert failed is not None
    assert failed.status == "failed"
    assert str(failed.reason).startswith(SAID)
    assert store.finished_keys() == {other.key}
    right = replace(wrong, test={"graded": 60.0}, protocol=6)
    assert store.finished_or_run(wrong.key, "the trial", lambda: right) == right
    assert store.get(wrong.key) == right
    assert store.finished_keys() == {right.key, other.key}
    assert len([row for row in store.read().records() if row.finished]) == 2
    store.compact(at_least=1)
    assert store.get(wrong.key) == right


def test_other_records_count(store: Store) -> None:
    rows = [
        trained(engine, accumulation, protocol, number=number)
        for number, (engine, accumulation, protocol) in enumerate(RIGHT)
    ]
    for row in rows:
        store.write(row)
        assert store.get(row.key) == row
    assert store.read().records() == rows


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
@pytest.mark.parametrize(("protocol", "compacted"), [(None, False), (5, True), (None, True)])
def test_what_was_made_from_a_wrong_trial_counts_as_failed(
    store: Store, protocol: int | None, compacted: bool
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
    for row in (*descendants, *others, replace(wrong, key="f" * 32), wrong):
        store.write(row)
    assert not compacted or compact(store) == 9
    assert store.finished_keys() == {row.key for row in others}
    for row in descendants:
        [failed] = store.matching(row.key)
        parent = (row.evaluates or row.encoder.partition("@")[2])[:10]
        assert str(failed.reason).startswith(f"it was made from trial {parent}, which was trained")
        assert store.get(row.key) == replace(row, status="failed", reason=failed.reason)
    assert [store.get(row.key) for row in others] == others


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
    other.keep(f"{wrong.key}.safetensors", store.weights(wrong.key))
    provide(other, f"tiny-bert@{wrong.key}")
    store.write(replace(wrong, weights_digest=digest))
    with pytest.raises(UserError, match=f"has not finished \\({SAID}1"):
        provide(store, f"tiny-bert@{wrong.key}")
    for name in (wrong.key, str(store.weights(wrong.key))):
        with pytest.raises(UserError, match=f"has not finished \\({SAID}1"):
            exportable(name, store)()
