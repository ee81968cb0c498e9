"""A search space: the file that says which configurations are tried, and how one is chosen."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from harness.errors import UserError
from harness.evaluation.suites import suite
from harness.plugin.config import Setting
from harness.sweep.axes import (
    Choice,
    Ends,
    Round,
    SpacePart,
    Values,
    joined_ends,
    size_problem,
)
from harness.sweep.conditions import condition_problem
from harness.sweep.sampling import ONE_OBJECTIVE, SEEDS, Pruner, Sampler, Wilcoxon
from harness.sweep.yaml_lines import Document, Location, read_document

DEV = "dev"
"""The name of whatever dev score a suite has, where a space selects by it"""


class MethodSpace(SpacePart):
    """The configurations of one method that are tried.

    They are a grid, rounds of grids, or ranges for a sampler. Without any of these, there is a
    single configuration.
    """

    set: Values = Field(default_factory=dict)
    grid: Round | None = None
    rounds: list[Round] | None = Field(None, min_length=1)
    ranges: dict[str, Choice] | None = Field(None, min_length=1)
    sampler: Sampler | None = None

    @field_validator("set", mode="before")
    @classmethod
    def _empty(cls, given: Any) -> Any:
        return given or {}  # `set:` with nothing behind it is None in YAML


class Select(SpacePart):
    """By what a configuration is chosen.

    `select: [dev, cost]` is short for `select: {metric: dev, cost: true}`.
    """

    metric: str = "stsb-dev"
    mode: Literal["max"] = "max"
    cost: bool = False
    """Whether the cheapest of the configurations is chosen that are nearly as good as the best"""

    @model_validator(mode="before")
    @classmethod
    def _plain_list(cls, given: Any) -> Any:
        if not isinstance(given, list):
            return given
        if len(given) != 2 or given[1] != "cost":
            raise ValueError("a list of objectives is [dev, cost]")
        return {"metric": given[0], "cost": True}


Numbers = Annotated[list[Annotated[int, Field(ge=0, lt=SEEDS)]], Field(min_length=1)]


class Repeats(SpacePart):
    """The seeds on which a configuration is run, and the label subsets.

    The label subsets matter only to a configuration that uses a share of the labels.
    """

    seeds: Numbers
    subsets: Numbers = Field(default_factory=lambda: [0])


class Space(SpacePart):
    """The content of a search-space file."""

    setting: Setting = "unsup"
    suite: str = "sts"
    select: Select = Select()
    search: Repeats = Repeats(seeds=[42])
    final: Repeats = Repeats(seeds=[0, 1, 2])
    pruner: Pruner | None = None
    encoders: list[str] = Field(min_length=1)
    set: Values = Field(default_factory=dict)
    methods: dict[str, MethodSpace | None] = Field(min_length=1)


def load_space(path: Path) -> tuple[Space, Document]:
    """The search space of a file, and the document that knows its lines.

    Raises UserError with file and line for whatever is wrong with the space itself. Hyperparameters
    are checked against their methods later, by `harness.sweep.overrides.searches`.
    """
    document = read_document(path)
    space = document.parse(Space)
    _check_selector(space, document)
    _check_pruner(space, document)
    for name, part in space.methods.items():
        _check_method(name, part or MethodSpace(), document)
    return space, document


def _check_selector(space: Space, document: Document) -> None:
    try:
        measured = suite(space.suite)
        dev = measured.dev
    except UserError as error:
        raise document.error(("suite",), str(error)) from None
    metric = space.select.metric
    location: Location = ("select", "metric") if "select" in document.content else ("suite",)
    if metric == DEV:
        return
    if metric in (*measured.tests, measured.card.average):
        raise document.error(
            location, f'"{metric}" is a test score, and test scores never select; use "{dev}"'
        )
    if metric != dev:
        raise document.error(
            location, f'suite {space.suite} has no dev score "{metric}"; valid: {dev}'
        )


def _check_pruner(space: Space, document: Document) -> None:
    pruner, repeats = space.pruner, len(space.search.seeds) * len(space.search.subsets)
    if pruner is not None and space.select.cost:
        raise document.error(
            ("pruner",), "a pruner looks at dev alone, and this space selects by cost, too"
        )
    if isinstance(pruner, Wilcoxon) and repeats <= pruner.least_seeds:
        raise document.error(
            ("pruner",),
            f"wilcoxon cannot decide before {pruner.least_seeds} seeds with a p_threshold of "
            f"{pruner.p_threshold:g}; write at least {pruner.least_seeds + 1} seeds under search",
        )
    for name, part in space.methods.items():
        sampler = part.sampler if part else None
        if space.select.cost and sampler is not None and sampler.name in ONE_OBJECTIVE:
            raise document.error(
                ("methods", name, "sampler"),
                f"{sampler.name} has one objective, and this space selects by dev and cost; "
                f"use nsga-ii",
            )


def _check_method(name: str, part: MethodSpace, document: Document) -> None:
    location: Location = ("methods", name)
    kinds = [kind for kind in ("grid", "rounds", "ranges") if getattr(part, kind) is not None]
    if len(kinds) > 1:
        raise document.error(
            location, f"{' and '.join(kinds)} exclude each other; keep one of them"
        )
    if part.grid is not None and not part.grid:
        raise document.error(
            (*location, "grid"), "the grid is empty; name a hyperparameter, or leave grid out"
        )
    if (part.ranges is None) != (part.sampler is None):
        raise document.error(location, "ranges need a sampler, and a sampler needs ranges")
    if wrong := condition_problem(part.ranges or {}):
        key, problem = wrong
        raise document.error((*location, "ranges", key), problem)
    known: dict[str, Ends | None] = {}
    for number, axes in enumerate(rounds(part)):
        where = (*location, "grid") if part.grid is not None else (*location, "rounds", number)
        if not axes:
            raise document.error(where, "the round is empty; name a hyperparameter")
        before = rounds(part)[number - 1] if number else {}
        if found := size_problem(axes, {key: known[key] for key in before}):
            key, problem = found
            raise document.error((*where, key), problem)
        known |= {key: joined_ends(known.get(key, ()), axis) for key, axis in axes.items()}


def rounds(part: MethodSpace) -> list[Round]:
    """The rounds of a method: a grid is one round; a single configuration and ranges have none."""
    return part.rounds or ([part.grid] if part.grid else [])
