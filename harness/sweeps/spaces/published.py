"""Searches of published values: each has one configuration, which gets the final seeds at once."""

from harness.plugin import registry
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.space import Repeats

FINAL_SEEDS, FINAL_SUBSETS = (0, 1, 2), (0, 1, 2, 3, 4)
"""The final seeds, and the label subsets where a share of the labels is used (diffaug.md, section
7)"""
PLAIN = Overrides()
"""A command line that changes nothing"""


def published_search(
    method: str, variant: str, values: Values, overrides: Overrides = PLAIN
) -> Search:
    """The search of a method's published values, and of the `values` in which it differs.

    overrides: their values go before these, and their seeds and subsets before the usual ones.
    Raises UserError for a value that the method refuses, and for an unknown corpus.
    """
    fields = registry.load(method).config_type.model_fields
    changed = {name: value for name, value in overrides.values.items() if name in fields}
    repeats = Repeats(
        seeds=list(overrides.seeds or FINAL_SEEDS), subsets=list(overrides.subsets or FINAL_SUBSETS)
    )
    search = Search(
        method=method,
        variant=variant,
        fixed={**values, **changed},
        rounds=(),
        ranges={},
        sampler=None,
        repeats={"search": repeats, "final": repeats},
        limit=None,
    )
    search.declared.check()
    return search
