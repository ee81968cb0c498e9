"""docs/methods.md shows which method works on which architecture, as it is found here."""

import re

import pytest

from tests.architectures import ARCHITECTURES
from tests.matrix import PAGE, Cells, found_in, page_part

pytestmark = pytest.mark.slow

FIRST, LAST = "| method | setting | ", "## One paragraph for each method"


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cells]:
    return found_in(tmp_path_factory.mktemp("matrix"))


# More than 20 s: every method in every setting trains on every architecture.
def test_the_page_has_the_matrix(matrix: dict[str, Cells]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    part = text[text.index("## Methods and architectures") : text.index(LAST)]
    assert part[part.index(FIRST) :].strip() == page_part(matrix).strip()


def test_every_architecture_has_methods_and_every_refusal_is_a_sentence(
    matrix: dict[str, Cells],
) -> None:
    assert list(matrix) == list(ARCHITECTURES)
    for name, cells in matrix.items():
        works = {row for row, cell in cells.items() if cell in ("yes", "dropout")}
        assert {"simcse unsup", "simcse sup", "sbert sup", "pooling unsup"} <= works, name
        for refusal in set(cells.values()) - {"yes", "dropout"}:
            assert re.fullmatch(r"[^:]+: choose [^:]+", refusal), refusal
    assert "dropout" not in matrix["BERT"].values()
