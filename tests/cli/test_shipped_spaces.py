"""Every shipped search space can be planned; each ablation plans the cells of its table."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.published import load_systems
from harness.sweeps.spaces.named_spaces import shipped_spaces
from harness.sweeps.spaces.overrides import Overrides, searches
from harness.sweeps.spaces.space import load_space

CELLS = {
    "clsr-table2": 10,  # 5 sizes of the batch, on two corpora
    "clsr-table4": 2,
    "d2cse-table6": 4 * 2 * 2,
    "dcpcse-figure2": 20,
    "dcpcse-table2": 2 * 2,
    "dcpcse-table6": 4,
    "diffaug-figure3": 1,
    "diffaug-figure4": 6,
    "diffaug-figure5": 12,
    "diffaug-table3": 11,  # without the synonyms, and with three rates of prefix-tuning
    "diffaug-table4": 3,
    "diffaug-table6": 9,
    "diffaug-table8": 5,
    "diffcse-table15": 10,
    "diffcse-table3": 5,  # without the four rows that need running text
    "diffcse-table4": 4,
    "diffcse-table5": 4,
    "diffcse-table6": 8,
    "diffcse-table7": 6,
    "diffcse-table8": 8,
}
"""Ablation -> the searches that its table or figure needs"""


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_spaces())
def test_every_shipped_space_can_be_planned(name: str, harness: Any, tmp_path: Path) -> None:
    answer = harness("plan", name, "--store", tmp_path / "store")
    assert answer.code == 0, answer.err
    assert "trials to run" in answer.out
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("name", "cells"), CELLS.items())
def test_an_ablation_has_the_cells_of_its_table(name: str, cells: int) -> None:
    found = searches(*load_space(shipped_spaces()[name]), Overrides())
    assert len({search.label for search in found}) == len(found) == cells


def test_every_ablation_is_counted() -> None:
    ablations = {name for name in shipped_spaces() if "-" in name}
    assert ablations == set(CELLS)


def test_the_first_line_says_what_it_is(harness: Any) -> None:
    for line in harness("list", "spaces").out.splitlines():
        name, what = line.split(maxsplit=1)
        if "-" in name:
            paper, _, place = name.partition("-")
            number = place.removeprefix("table").removeprefix("figure")
            assert what.lower().startswith(f"{paper}, {place.removesuffix(number)} {number}: ")


def test_schedules_without_the_weight_need_no_search() -> None:
    """Table 6 of DiffAug: its weight is searched for each schedule that has it."""
    found = searches(*load_space(shipped_spaces()["diffaug-table6"]), Overrides())
    assert {search.variant: bool(search.rounds) for search in found} == {
        "joint": True,
        "sup-unsup": False,
        "sup-joint": True,
    }


def test_edits_in_the_contrastive_loss_train_as_simcse_does() -> None:
    """Table 15 of DiffCSE, by the space and by the table: SimCSE's rate, batches, epochs, head."""
    shared = ("learning_rate", "batch_size", "epochs", "head", "temperature")

    def training(method: str, values: Mapping[str, Any]) -> list[Any]:
        config = resolve(registry.load(method), values)
        return [getattr(config, name) for name in shared]

    simcse = training("simcse", {})
    found = searches(*load_space(shipped_spaces()["diffcse-table15"]), Overrides())
    edited = [each.fixed for each in found if "objective" in each.fixed]
    augmented = [values for values in edited if values["objective"] != "detection"]
    run = load_systems().systems["simcse-edited"]
    assert run is not None
    augmented += [{**run.configuration, **values} for values in run.variants.values()]
    assert len(augmented) == 6 + 6
    assert [training("diffcse", values) for values in augmented] == [simcse] * 12
    equivariance = [values for values in edited if values["objective"] == "detection"]
    assert [training("diffcse", values)[0] for values in equivariance] == [7e-6] * 3


def test_a_path_in_the_checkout_means_the_shipped_ablation(
    harness: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("diffaug-table6", "search_spaces/ablations/diffaug-table6.yaml"):
        answer = harness("plan", "simcse", name, "--encoder", "tiny-bert", "--store", "none")
        assert answer.code == 0, answer.err
        assert "On tiny-bert:" in answer.out
        assert "(sup-joint)" in answer.out
