"""Published tables that are not of test scores: dev scores, cost, hyperparameters, examples."""

from typing import Any

import pytest

from harness.plugin import registry
from harness.report.groups import Group
from harness.report.paper_cells import Answers
from harness.report.tables import Table
from tests.report.conftest import MadeStore, lines_of

ABLATION = {
    "objective": "detection", "edit": "replace", "edited": "same", "contrastive": True,
    "head": "batchnorm", "masking_ratio": 0.3, "replaced_token_weight": 0.005,
}  # fmt: skip
TRANSFER_TUNED = ABLATION | {
    "learning_rate": 2e-6, "masking_ratio": 0.15, "replaced_token_weight": 0.05,
}  # fmt: skip


def paper(store: MadeStore, name: str, number: int, **options: Any) -> Table:
    return store.paper(name, number, methods=registry.names(), folder="results/trials", **options)


def test_the_columns_of_an_ablation_are_two_runs(store: MadeStore) -> None:
    """DiffCSE's Table 3 has STS-B dev of one run, and transfer dev of another one."""
    for dev in (84.0, 85.0):
        store.trial(ABLATION, method="diffcse", dev={"stsb-dev": dev})
    tuned: dict[str, Any] = {"method": "diffcse", "configuration": TRANSFER_TUNED}
    of = store.trial(**tuned, dev={"stsb-dev": 90.0})
    dev = {"transfer-senteval-dev": 85.0}
    store.evaluation("transfer-senteval", {}, of=of, **tuned | {"dev": dev})
    found = lines_of(paper(store, "diffcse", 3), "DiffCSE [")
    assert [line[2:] for line in found] == [
        ["", "84.56", "85.95"],
        ["2, 1", "84.50±0.71", "85.00"],
        ["", "-0.06≈", "-0.95"],
    ]


def test_another_protocol_is_marked_and_has_no_difference(store: MadeStore) -> None:
    for dev in (84.0, 85.0):
        store.trial(ABLATION, method="diffcse", dev={"stsb-dev": dev}, protocol=1)
    _, ours = lines_of(paper(store, "diffcse", 3), "DiffCSE [")
    assert ours[3] == "84.50±0.71†"
    store.trial(ABLATION, method="diffcse", dev={"stsb-dev": 80.0})
    _, ours, delta = lines_of(paper(store, "diffcse", 3), "DiffCSE [")
    assert (ours[3], delta[3]) == ("80.00", "-4.56")


def test_what_a_row_is_about_is_printed(store: MadeStore) -> None:
    assert lines_of(paper(store, "diffaug", 8), "no auxiliary loss")[0][3:] == ["no", "", "86.2"]
    assert lines_of(paper(store, "diffaug", 8), "alpha 1e-2")[0][3:] == ["yes", "0.01", "84.8"]


def test_cost_has_no_difference(store: MadeStore) -> None:
    """There is no GPU memory on a CPU, so a column of a group with such a trial is empty."""
    for minutes in (30, 32):
        cost = {"training_seconds": 60.0 * minutes, "peak_gpu_memory_mib": 9 * 1024.0}
        store.trial({"batch_size": 128}, setting="sup", **cost)
    published, ours = lines_of(paper(store, "diffaug", 4), "SimCSE")
    assert published[3:] == ["36", "10"]
    assert ours[2:] == ["2", "31±1", "9±0"]
    store.trial({"batch_size": 128}, setting="sup", training_seconds=60.0)
    assert lines_of(paper(store, "diffaug", 4), "SimCSE")[1][4] == ""


def test_parameters_are_compared(store: MadeStore) -> None:
    store.trial(parameters_total=111_000_000)
    _, ours, delta = lines_of(paper(store, "diffcse", 14), "SimCSE")
    assert (ours[3], delta[3]) == ("111", "+1")


@pytest.mark.parametrize(
    ("name", "number"),
    [("d2cse", 7), ("dcpcse", 3), ("dcpcse", 4), ("diffaug", 5), ("diffcse", 12), ("diffcse", 13)],
)
def test_our_defaults_are_the_papers(name: str, number: int, store: MadeStore) -> None:
    """The plugins say so of themselves; here the published tables are asked."""
    sheet = paper(store, name, number)
    assert not [line for section in sheet.sections for line in section.lines if "≠" in str(line)]


class Spoken(Answers):
    """A model that answers without weights."""

    def __init__(self) -> None:
        self.problems = {}

    def can_ask(self, group: Group) -> bool:
        return True

    def nearest(self, group: Group, query: str, count: int) -> list[str]:
        return [f"{group.method} {rank} to {query}" for rank in range(1, count + 1)]

    def cosine(self, group: Group, query: str, sentence: str) -> float:
        return {"can you do it?": 0.5}.get(sentence, 0.25)


def test_sentences_of_our_models_stand_beside_the_published(store: MadeStore) -> None:
    store.trial()
    sheet = paper(store, "diffcse", 9, answers=Spoken())
    assert sheet.sections[0].name == "SimCSE-BERT base, query: you can do it, too."
    second = ["2", "can you do it?", "simcse 2 to you can do it, too."]
    assert list(sheet.sections[0].lines[1]) == second
    assert [line[2] for line in sheet.sections[1].lines] == ["", "", ""]  # DiffCSE has no trial
    ours = [row["ours"] for row in sheet.records.to_pylist()]
    assert ours[:4] == [*(f"simcse {rank} to you can do it, too." for rank in (1, 2, 3)), None]


def test_cosines_of_our_models_stand_beside_the_published(store: MadeStore) -> None:
    store.trial({"prompts": "deep"}, method="dcpcse", score=78.0)
    _, ours, delta = lines_of(paper(store, "d2cse", 2, answers=Spoken()), "DCPCSE-BERT base")
    assert ours[2:] == ["1", "0.2500", "0.2500", "0.5000", "78.00"]
    assert delta[5:] == ["-0.4274", "-0.49"]


def test_a_model_without_weights_is_named(store: MadeStore) -> None:
    key = store.trial(key="7" * 32)
    sheet = paper(store, "diffcse", 9, answers=Answers(store, lambda _: None))
    [note] = [note for note in sheet.notes if "weights are not kept" in note][:1]
    assert f"harness retrieve {key[:10]} 'you can do it, too.' --count 3" in note
