"""A published table as the target of a sweep."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness import PROTOCOL
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.trials.store import Store
from tests.cli.conftest import Harness, Shown, sets
from tests.trials.test_store import record

Planned = Callable[..., str]


@pytest.fixture
def planned(shown: Shown, store: Path) -> Planned:
    """planned(argument, ...): what `harness sweep --dry-run` prints."""

    def call(*arguments: object) -> str:
        out = shown("sweep", *arguments, "--store", store, "--dry-run")
        assert not store.exists()
        return out

    return call


@pytest.mark.slow
def test_a_table_plans_what_it_lacks(planned: Planned) -> None:
    for paper, table, trials in (
        ("diffaug", 6, 9 * 3 + 6 * 5),  # 6 of 9 rows search the weight of the labels
        # Two unsupervised methods; six methods at 1 %, at 10 % and at 100 % of the labels, of which
        # two search the weight of the labels.
        ("diffaug", 2, 2 * 3 + 6 * (15 + 15 + 3) + 2 * 3 * 5),
        ("d2cse", 8, 4 * 2 * 3),
        ("clsr", 3, 4 * 3 + 4),  # CLSR on four encoders, and the encoders as they are
    ):
        assert f"\n{trials} trials to run" in planned("--paper", paper, "--table", table)
    narrow = ("--seeds", "0", "--subsets", "1,2")
    out = planned("simcse", "--paper", "diffaug", "--table", "2", *narrow)
    weights = 3 * 5  # of joint training, on one seed and one subset for each share of the labels
    assert f"\n{2 * (2 + 2 + 1) + 1 + weights} trials to run" in out
    assert "promptbert" not in out


@pytest.mark.slow
def test_a_dry_run_says_trials_steps_and_hours(planned: Planned) -> None:
    """The embedded corpus is there, so all of it is known."""
    small = sets(
        suite="graded", max_steps=2, sentences="graded-sentences", triplets="graded-triplets",
        classification_max_steps=1,
    )  # fmt: skip
    out = planned("--paper", "diffaug", "--table", "6", "--encoder", "tiny-bert", *small)
    # Three methods on three seeds, and with five weights in two of three schedules; the phase on
    # labels alone has one step more. ConSERT may stop.
    assert f"57 trials to run, {3 * 3 * (2 + 3 + 3) + 3 * 5 * (2 + 3)} steps" in out
    assert re.search(r"Time \(an estimate\): .*(\d+ (s|min|h)|hours)", out)


def test_a_row_that_cannot_run_here_is_left_out(harness: Harness, store: Path) -> None:
    """GloVe needs a file of word vectors, and two ablations need a file of the user."""
    for paper, table, reason in (
        ("d2cse", 1, "Left out: glove unsup glove: glove has no word vectors"),
        ("diffaug", 3, "synonyms=*: it needs a thesaurus: --set synonyms=FILE"),
        ("diffcse", 3, "edited=next needs running text, sentences=neighbours:FILE"),
    ):
        answer = harness("plan", "--paper", paper, "--table", table, "--store", store)
        assert answer.code == 0
        assert reason in answer.err
        if paper == "d2cse":
            assert any("roberta-base" in line for line in answer.out.splitlines() if "On " in line)
            assert "d2cse unsup" in answer.out


def test_suites_that_trials_lack_are_planned(shown: Shown, store: Path) -> None:
    """An encoder that nothing trained is measured, and asked for one more suite."""
    configuration = resolve(registry.load("pooling"), {"pooling": "cls"}).deciding()
    trial = record(
        1, method="pooling", encoder="bert-base-uncased", seed=0, steps=0, dev={}, test={},
        configuration=configuration, protocol=PROTOCOL, search="",
    )  # fmt: skip
    Store(store).write(trial)
    out = shown("plan", "--paper", "diffcse", "--table", "2", "--store", store)
    assert "Trials of the store to measure: 1 with transfer-senteval" in out


@pytest.mark.slow
def test_a_table_is_filled_and_nothing_runs_twice(serially: Any, tmp_path: Path) -> None:
    """DiffAug's Table 1 has two poolings of BERT base; here, the encoder is the tiny one.

    It has BERT-flow, too, which learns from SNLI, and SBERT-flow, from SBERT, without whose files
    the rows are left out.
    """
    store = tmp_path / "store"
    words = ["--paper", "diffaug", "--table", "1", "--encoder", "tiny-bert"]
    words += ["--set", "suite=graded", "--store"]
    first, second = (serially("pooling", *words, store) for _ in range(2))
    assert first.code == second.code == 0, first.err + second.err
    assert "final seeds: 2 to run, 0 already in the store" in first.out
    assert "no trial to run: the store has all that can run here" in second.out
    assert "Table 1: " in first.out
    left = pq.read_table(tmp_path / "tables" / "diffaug-table-1.parquet").to_pylist()
    stored = {record.key for record in Store(store).read().records()}
    assert {trial["key"] for row in left for trial in row["trials"]} == stored
    other = tmp_path / "other"
    third = serially("pooling", "flow", *words, other, "--seeds", 0)
    assert third.code == 1, third.err
    left_out = [line for line in third.err.splitlines() if line.startswith("Left out: flow")]
    assert len(left_out) == 2
    assert all(" was not found" in line for line in left_out)
    assert {record.method for record in Store(other).read().records()} == {"pooling"}
    with pytest.raises(UserError):
        serially("flow", *words, other, "--seeds", 0)


# More than 20 s: Ray starts, since only workers have limits.
@pytest.mark.process
@pytest.mark.slow
def test_further_suites_are_measured_on_workers(
    process: Any, shown: Shown, short_hub: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2CSE's Table 5 has alignment and uniformity, too. They keep the limits of a trial."""
    words = ["simcse", "--paper", "d2cse", "--table", "5", "--store", store, "--seeds", "0"]
    words += ["--encoder", "tiny-bert", *sets(max_steps=2, batch_size=8)]
    monkeypatch.setenv("HARNESS_HUB", str(short_hub))
    first = shown("sweep", *words, "--local")
    assert "Trials of the store to measure: 2 with geometry" in first
    assert "[2/2]" in first
    records = Store(store).read().records()
    finals = {record.key for record in records if record.role == "final"}
    measured = [record for record in records if record.role == "evaluation"]
    assert {record.evaluates for record in measured} == finals
    assert all(record.finished and record.test["alignment"] > 0 for record in measured)
    second = shown("sweep", *words, "--dry-run")
    assert "0 trials to run" in second
    assert "to measure" not in second
    for row in measured:
        (store / f"{row.key}.parquet").unlink()
    data = {"HARNESS_HUB": str(short_hub)}
    third = process("sweep", *words, "--memory-per-trial", "0.1", environment=data)
    assert third.code == 1, third.err
    assert third.out.count("more than --memory-per-trial (0.1 GiB)") == 2
    assert len(Store(store).read().records()) == len(finals)
    assert [*store.rglob(".running/**"), *store.parent.rglob("*-suites.txt")] == []
