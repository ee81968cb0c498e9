"""What share of a published table or figure a store has."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from harness.files import shipped
from harness.plugin import registry
from harness.report.coverage import shares
from harness.report.paper_cells import Comparer
from harness.report.published import load_paper, load_systems
from harness.report.quantities import PAPER_COLUMNS
from harness.sweeps.spaces.space import load_space
from harness.trials.store import Store

Add = Callable[..., str]
FIGURES = {
    "diffaug": ["Figure 3", "Figure 4", "Figure 5"],
    "dcpcse": ["Figure 2"],
    "diffcse": ["Figure 2"],
    "d2cse": ["Figure 2"],
}


def found(store: Store, paper: str) -> dict[str, str]:
    """Table or figure -> its share, as text."""
    comparer = Comparer(store.read(PAPER_COLUMNS).table)
    return {
        share.name: str(share) for share in shares(load_paper(paper), comparer, registry.names())
    }


@pytest.mark.parametrize("paper", FIGURES)
def test_every_table_and_figure_has_a_share(paper: str, store: Store) -> None:
    tables = [f"Table {number}" for number in load_paper(paper).numbers]
    assert list(found(store, paper)) == [*tables, *FIGURES[paper]]


def test_an_empty_store_has_the_defaults_alone(store: Store) -> None:
    shares = found(store, "diffcse")
    # GloVe needs a file; 3 of 17 rows are quoted.
    assert shares["Table 1"] == "0 of 104 cells, 8 need input, 24 quoted only"
    assert shares["Table 13"] == "6 of 6 defaults"
    assert shares["Table 14"] == "0 of 4 cells, 2 quoted only"


def test_trials_fill_their_cells(store: Store, add_trial: Add) -> None:
    add_trial()
    shares = found(store, "diffcse")
    assert shares["Table 1"].startswith("16 of 104 cells")  # SimCSE, and SimCSE reproduced
    assert shares["Table 7"] == "0 of 6 cells"
    assert shares["Table 3"].startswith("1 of 10 cells")  # without the transfer tasks
    assert shares["Table 9"] == "9 of 18 cells"
    assert shares["Figure 2"] == "1 of 2 runs"


def test_a_trial_of_another_protocol_fills_nothing(store: Store, add_trial: Add) -> None:
    add_trial(protocol=1)
    assert found(store, "diffcse")["Table 1"].startswith("0 of 104 cells")


def points(space: Any, method: str) -> list[dict[str, Any]]:
    """What differs in the runs of a space's method: a dictionary for each variant."""
    part = space.methods[method]
    return [{**part.set, **values} for values in (part.variants or {"": {}}).values()]


@pytest.mark.parametrize("name", ["diffaug.figure4", "diffaug.figure5", "dcpcse.figure2"])
def test_a_figure_has_the_points_of_its_search_space(name: str) -> None:
    paper, _, figure = name.partition(".")
    space, _ = load_space(shipped("search_spaces") / "ablations" / f"{paper}-{figure}.yaml")
    runs = load_systems().figures[name]
    (axis,) = runs.axis
    assert [row.setting for row in runs.rows] == space.setting
    values = [point[axis] for row, point in product(runs.rows, points(space, paper))]
    assert values == runs.axis[axis]
