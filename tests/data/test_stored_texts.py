"""The texts of a large corpus, which are on disk."""

from collections.abc import Callable

import pytest

from harness.data import texts
from harness.data.texts import text_columns
from harness.scratch import Scratch


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The places of the lines that were read."""
    read, places = Scratch.line, list[int]()

    def line(self: Scratch, place: int) -> bytes:
        places.append(place)
        return read(self, place)

    monkeypatch.setattr(Scratch, "line", line)
    return places


@pytest.mark.parametrize(
    "ask",
    [lambda column: [column[item] for item in range(25)], lambda column: column[:], list],
    ids=["one by one", "a slice", "all"],
)
def test_neighbours_are_read_together(
    ask: Callable[..., list[str]], reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "ITEMS_AT_ONCE", 10)
    expected = [f"sentence {number}" for number in range(25)]
    [column] = text_columns((text,) for text in expected)
    assert ask(column) == expected
    assert len(reads) == 3
    assert column[-1] == expected[-1]
    assert column[3:20:4] == expected[3:20:4]
