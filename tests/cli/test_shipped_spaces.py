"""Every shipped search space can be planned; each ablation plans the cells of its table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.paper import load_systems
from harness.sweeps.spaces.overrides import Overrides, shipped_spaces
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.targets.options import SweepOptions
from tests.cli.conftest import Shown

CELLS = {
    "clsr-table2": 10,  # 5 sizes of the batch, on two corpora
    "clsr-table4": 2, "d2cse-table6": 4 * 2 * 2, "dcpcse-figure2": 20, "dcpcse-table2": 2 * 2,
    "dcpcse-table6": 4, "diffaug-figure3": 1, "diffaug-figure4": 6, "diffaug-figure5": 12,
    "diffaug-table3": 9,  # without the synonyms
    "diffaug-table4": 3, "diffaug-table6": 9, "diffaug-table8": 5,
    "diffcse-table15": 10 + 3,  # some columns of DiffCSE's transfer tasks are other trainings
    "diffcse-table3": 5 + 4,  # without the four rows that need running text
    "diffcse-table4": 4 + 4, "diffcse-table5": 4 + 2, "diffcse-table6": 8 + 7,
    "diffcse-table7": 6, "diffcse-table8": 8,
}  # fmt: skip
"""Ablation -> the searches that its table or figure needs"""


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_spaces())
def test_every_shipped_space_can_be_planned(name: str, shown: Shown, tmp_path: Path) -> None:
    out = shown("plan", name, "--store", tmp_path / "store")
    assert "trials to run" in out
    assert not (tmp_path / "store").exists()


def test_an_ablation_has_the_cells_of_its_table() -> None:
    assert {name for name in shipped_spaces() if "-" in name} == set(CELLS)
    for name, cells in CELLS.items():
        found = searches(*load_space(shipped_spaces()[name]), Overrides())
        assert len({search.label for search in found}) == len(found) == cells, name


def trials_of(options: SweepOptions) -> set[tuple[str, str, int, str]]:
    """The trials that are known before anything has run, by all that decides their results."""
    searches = options.searches(lambda _: None)
    return {
        (trial.declared.name, repr(sorted(trial.config.deciding().items())), trial.seed, trial.role)
        for search in searches
        for trial in (*search.known_trials(), *search.trials([search.fixed], "final"))
    }


@pytest.mark.parametrize("name", [name for name in CELLS if "table" in name])
def test_a_table_and_its_space_run_the_same_trials(name: str, tmp_path: Path) -> None:
    paper, _, number = name.partition("-table")
    store = tmp_path / "store"
    by_space = trials_of(SweepOptions(space=name, store=store))
    assert by_space
    assert by_space == trials_of(SweepOptions(paper=paper, table=int(number), store=store))


@pytest.mark.parametrize("number", [2, 6, 7])
def test_the_weight_of_joint_baselines_is_searched_in_every_table(number: int) -> None:
    """DiffAug, appendix C: the paper tried several, and prints none."""
    options = SweepOptions(paper="diffaug", table=number, methods=["simcse", "promptbert"])
    joint = [
        search
        for search in options.searches(lambda _: None)
        if search.config.setting == "semisup"
        and search.config.deciding()["schedule"] in ("joint", "sup-joint")
    ]
    assert joint
    for search in joint:
        tried = [values["auxiliary_weight"] for values in search.configurations(0, [])]
        assert tried == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
        assert search.repeats["search"].seeds == [42]
    fixed = replace(options, values={"auxiliary_weight": "0.5"}).searches(lambda _: None)
    assert not any(search.rounds for search in fixed)


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
    rates = [training("diffcse", values)[0] for values in equivariance]
    assert rates == [7e-6] * 3 + [2e-6] * 3
