"""Stores of several machines become one: nothing is lost, and what differs is named."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import UserError
from harness.evaluation.kept import keep_pairs, kept_pairs
from harness.files import content_digest
from harness.trials.merging import merge
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.store_folders import pairs_file
from tests.kits import FullDisk
from tests.trials.test_store import record

Stores = Callable[..., Store]


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    """stores(name, record, ...): a store with these records."""

    def make(name: str, *records: Record) -> Store:
        store = Store(tmp_path / name / "trials")
        for row in records:
            store.write(row)
        return store

    return make


def states(store: Store) -> dict[int, str]:
    return {int(row.key, 16): row.status for row in store.read().records()}


def failure(number: int) -> Record:
    return record(number, status="failed", reason="no memory", dev={}, test={})


@pytest.mark.slow
def test_all_records_come_together(stores: Stores) -> None:
    """Compacted sources and others; what has finished goes before what has not."""
    one = stores("one", record(1), record(2), failure(5), record(6))
    one.compact(at_least=2)
    two = stores("two", record(2), record(3), failure(4))
    into = stores("into", record(5), failure(6))
    expected = dict.fromkeys((1, 2, 3, 5, 6), "finished") | {4: "failed"}
    for new, old in ((5, 2), (0, 7)):
        merged = merge([one, two], into)
        assert states(into) == expected
        assert (merged.new, merged.known, merged.conflicts) == (new, old, [])
    assert states(one) == {1: "finished", 2: "finished", 5: "failed", 6: "finished"}
    for source, number in ((one, 1), (one, 6), (two, 3), (two, 4)):
        assert into.get(record(number).key) == source.get(record(number).key)


@pytest.mark.slow
def test_another_result_is_named(stores: Stores) -> None:
    into = stores("into", record(1, host="here"), record(2), record(3))
    changed = [record(2, test={"graded": 50.25}), record(3, steps=11)]
    other = stores("two", record(1, host="there", wall_seconds=9.0), *changed)
    conflicts = merge([other], into).conflicts
    assert [(int(row.key, 16), row.difference, row.store) for row in conflicts] == [
        (2, "test graded is 50.0 here and 50.25 there", other.place),
        (3, "steps is 10 here and 11 there", other.place),
    ]
    assert into.get(record(2).key).test == {"graded": 50.0}


@pytest.mark.slow
def test_weights_come_along(stores: Stores, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"some weights")
    digest = content_digest(weights)
    one = stores("one", *(record(number, weights_digest=digest) for number in (1, 2, 3)))
    one.keep(f"{record(1).key}.safetensors", weights)
    pairs = pairs_file(one.weights(record(3).key), "graded")
    keep_pairs({"graded": np.array([[0.5, 0.25], [5.0, 1.0]])}, pairs)
    weights.write_bytes(b"damaged")
    one.keep(f"{record(2).key}.safetensors", weights)
    into = stores("into")
    merge([one], into)
    assert into.weights(record(1).key).read_bytes() == b"some weights"
    assert not into.weights(record(2).key).exists()
    kept = kept_pairs(pairs_file(into.weights(record(3).key), "graded"))
    assert kept["graded"].tolist() == [[0.5, 0.25], [5.0, 1.0]]


@pytest.mark.slow
def test_a_merge_that_was_stopped_before_the_weights_is_done_again(
    stores: Stores, tmp_path: Path, full_disk: FullDisk
) -> None:
    """The records are there already; so are those that came without weights, as published ones."""
    weights = tmp_path / "weights"
    weights.write_bytes(b"some weights" * 10000)
    one = stores("one", record(1, weights_digest=content_digest(weights)))
    one.keep(f"{record(1).key}.safetensors", weights)
    into = stores("into")
    with full_disk(100_000), pytest.raises(UserError, match="into/trials-weights cannot be writ"):
        merge([one], into)
    assert states(into) == {1: "finished"}
    assert merge([one], into).known == 1
    assert into.weights(record(1).key).read_bytes() == weights.read_bytes()


def damage(store: Store, number: int) -> None:
    """Make the configuration of a record no JSON, so that its key alone can be read."""
    path = store.folder / f"{record(number).key}.parquet"
    table = pq.read_table(path)
    index = table.column_names.index("configuration")
    pq.write_table(table.set_column(index, "configuration", pa.array(['{"a": 1'])), path)


@pytest.mark.slow
def test_a_damaged_record_is_named_or_replaced_by_a_sound_one(stores: Stores) -> None:
    one = stores("one", *(record(number) for number in range(5)))
    damage(one, 1)
    damage(one, 2)
    into = stores("into", record(2), record(3), record(4))
    damage(into, 3)
    merged = merge([one], into)
    why = "its configuration is not a JSON object"
    assert merged.unreadable == [(record(1).key, why), (record(2).key, why)]
    assert (merged.new, merged.known) == (2, 1)
    assert states(into) == dict.fromkeys((0, 2, 3, 4), "finished")
