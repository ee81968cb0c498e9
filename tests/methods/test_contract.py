"""Every shipped method keeps the contract, and every shipped space resolves."""

from pathlib import Path

import pytest

from harness.plugin import registry
from harness.plugin_check.check import problems
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space

SPACES = Path(__file__).resolve().parents[2] / "search_spaces"
METHODS = sorted(path.parent.name for path in (SPACES.parent / "methods").glob("*/__init__.py"))


def test_all_methods_are_found() -> None:
    assert set(METHODS) <= set(registry.sources())
    assert len(METHODS) == 32


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_keeps_the_contract(name: str) -> None:
    assert problems(name) == []


@pytest.mark.parametrize("path", sorted(SPACES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_space_is_valid(path: Path) -> None:
    """Names, values and ranges of every axis, for every method and encoder."""
    space, document = load_space(path)
    found = searches(space, document, Overrides())
    assert {search.method for search in found} == set(space.methods)
