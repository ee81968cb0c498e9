"""The numbers of DCPCSE's second version, PromCSE, as tables beside those of the paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper
from harness.targets.options import SweepOptions
from harness.trials.store import Store


def test_its_tables_are_no_tables_of_the_paper() -> None:
    """They are printed and filled by their numbers; the cost of the paper is that of its own."""
    paper = load_paper("dcpcse")
    assert paper.fillable == [1, 2]
    assert list(paper.numbers) == [str(number) for number in range(1, 9)]
    for number in range(5, 9):
        origins = {row.origin for row in paper.tables[f"table{number}"].rows}
        assert origins == {
            "arXiv 2203.06875v2 (Findings of EMNLP 2022, PromCSE), which is not this paper"
        }


def configurations(**target: Any) -> list[dict[str, Any]]:
    found = [search.config for search in SweepOptions(**target).searches(lambda _: None)]
    return sorted((config.deciding() for config in found), key=repr)


def test_the_table_of_prompt_types_and_its_space_run_the_same(tmp_path: Path) -> None:
    of_table = configurations(paper="dcpcse", table=6, store=tmp_path)
    assert of_table == configurations(space="dcpcse-table6")
    types = [values["prompts"] for values in of_table if "prompts" in values]
    assert sorted(types) == ["deep", "input-layer", "layer-shared"]


def test_supervised_rows_have_the_values_of_the_second_version(tmp_path: Path) -> None:
    found = configurations(paper="dcpcse", table=5, store=tmp_path)
    fields = ("encoder", "batch_size", "learning_rate", "prompt_length", "epochs", "hinge_weight")
    assert {tuple(each[name] for name in fields) for each in found if each["setting"] == "sup"} == {
        ("bert-base-uncased", 256, 0.01, 12, 10, 0.0),
        ("roberta-base", 512, 0.01, 10, 10, 0.0),
        ("roberta-large", 512, 0.005, 10, 10, 0.0),
    }


def test_trials_with_the_hinge_loss_fill_no_row_without_it(
    store: Store, add_trial: Callable[..., str]
) -> None:
    hinge = {"prompts": "deep", "hinge_weight": 10.0}
    add_trial(hinge, 90.0, method="dcpcse", setting="sup", dev={"stsb-dev": 99.0})
    add_trial({"prompts": "deep"}, 70.0, method="dcpcse", setting="sup")  # from before the field
    compared = Comparer(store.read().table).table(load_paper("dcpcse"), "table1")
    means = {cell.ours.mean for cell in compared.cells if cell.ours}
    assert means == {70.0}
