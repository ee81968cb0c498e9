"""A search space: the file that says which configurations are tried, and how one is chosen."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from harness.data.corpora import SOURCES
from harness.data.shapes import CorpusName
from harness.document import Document, Location, read_document
from harness.errors import UserError
from harness.evaluation.catalogue import CARDS
from harness.evaluation.suites import choosing, suite
from harness.plugin.config import Setting
from harness.sweeps.spaces.axes import (
    MOST,
    Choice,
    Round,
    SpacePart,
    Values,
    condition_problem,
    size_problem,
)
from harness.sweeps.spaces.pruners import Pruner, Wilcoxon

SEEDS = 2**32
"""Seeds and the numbers of label subsets are below this, which is the limit of numpy's seeds"""
ONE_OBJECTIVE = ("cma-es",)
"""Samplers that cannot search for a high dev score and a low cost at the same time"""


class Sampler(SpacePart):
    """An Optuna sampler with its budget: configurations, hours, or both."""

    name: Literal["tpe", "random", "cma-es", "qmc", "gp", "nsga-ii", "nsga-iii"] = "tpe"
    configurations: int | None = Field(None, ge=1, le=MOST)
    """At most so many configurations"""
    hours: float | None = Field(None, gt=0)
    """No further configuration when the trials of the search have run for so long, all together"""
    seed: int = Field(0, ge=0, lt=SEEDS)

    @model_validator(mode="after")
    def _has_a_budget(self) -> "Sampler":
        if self.configurations is None and self.hours is None:
            raise ValueError("a sampler needs a budget; write configurations, hours, or both")
        return self


_ONCE = AfterValidator(lambda listed: list(dict.fromkeys(listed)))
"""Validator of lists whose repeated entries count once, as the values of a grid do"""
DEV = "dev"
"""The name of whatever dev score a suite has, where a space selects by it"""


Settings = Annotated[
    list[Setting],
    BeforeValidator(lambda given: given if isinstance(given, list) else [given]),
    Field(min_length=1),
    _ONCE,
]
"""One setting or a list of them"""


class TrainedModel(SpacePart):
    """A model of a method, such as a teacher, that another method of the sweep trains first.

    It is that of the method's chosen configuration, trained on the first of the final seeds.
    """

    trained_by: str
    """The method; one that is not in the space has its published values"""
    encoder: str | None = None
    """The pretrained model from which that method starts; None: that of the search itself"""
    setting: Setting | None = None
    """The setting of that method; None: the setting of the method that uses the model"""


class TrainedEncoder(TrainedModel):
    """An encoder that another method of the sweep trains first."""

    encoder: str
    """The pretrained model from which that method starts"""


Encoders = Annotated[
    list[
        Annotated[
            Annotated[str, Tag("name")] | Annotated[TrainedEncoder, Tag("trained")],
            Discriminator(lambda value: "name" if isinstance(value, str) else "trained"),
        ]
    ],
    Field(min_length=1),
    _ONCE,
]


SetValue = Annotated[
    Annotated[TrainedModel, Tag("trained")] | Annotated[Any, Tag("value")],
    Discriminator(
        lambda value: "trained" if isinstance(value, dict) and "trained_by" in value else "value"
    ),
]
"""The value of a hyperparameter, or the model that stands in its place when it is trained"""
SetValues = dict[str, SetValue]


class Variant(SpacePart):
    """The values that make a variant, by hyperparameter, and a grid of its own."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: SetValues

    grid: Round | None = None

    @property
    def values(self) -> SetValues:
        """The values without the grid."""
        return dict(self.model_extra or {})


class MethodSpace(SpacePart):
    """The configurations of one method that are tried.

    They are a grid, rounds of grids, or ranges for a sampler. Without any of these, there is a
    single configuration. Each variant, in each setting and on each encoder, is a search of its own.
    """

    setting: Settings | None = None
    """None: that of the space"""
    encoders: Encoders | None = None
    """None: those of the space"""
    set: SetValues = Field(default_factory=dict)
    variants: dict[str, Variant] | None = Field(None, min_length=1)
    """Name -> the values that make the variant, which go before those of `set`, and its `grid`"""
    grid: Round | None = None
    rounds: list[Round] | None = Field(None, min_length=1)
    ranges: dict[str, Choice] | None = Field(None, min_length=1)
    sampler: Sampler | None = None

    @field_validator("set", mode="before")
    @classmethod
    def _empty(cls, given: Any) -> Any:
        return given or {}  # `set:` with nothing behind it is None in YAML

    @field_validator("variants", mode="before")
    @classmethod
    def _named(cls, variants: Any) -> Any:
        """A variant with nothing behind its name is the method as it is."""
        if not isinstance(variants, dict):
            return variants
        for name in variants:
            if not isinstance(name, str) or not name.strip():
                raise ValueError(f'the name of a variant is a text; write "{name}" in quotes')
        return {name: values or {} for name, values in variants.items()}

    def variant(self, name: str) -> Variant:
        """A variant by its name; "": the method itself, which changes nothing."""
        return self.variants[name] if self.variants else Variant()

    def rounds_of(self, variant: str) -> list[Round]:
        """The rounds of a variant. A grid is one; a single configuration and ranges have none."""
        grid = self.variant(variant).grid or self.grid
        return self.rounds or ([grid] if grid else [])

    def located_rounds(self, method: Location) -> Iterator[tuple[Location, Round]]:
        """The rounds of the method and of its variants, each with its place in the file."""
        if self.grid is not None:
            yield (*method, "grid"), self.grid
        for number, axes in enumerate(self.rounds or ()):
            yield (*method, "rounds", number), axes
        for name, variant in (self.variants or {}).items():
            if variant.grid is not None:
                yield (*method, "variants", name, "grid"), variant.grid


class Select(SpacePart):
    """The scores by which a configuration is chosen.

    `select: [dev, cost]` is short for `select: {metric: dev, cost: true}`.
    """

    metric: str = "stsb-dev"
    mode: Literal["max"] = "max"
    cost: bool = False
    """Whether the cheapest of the configurations is chosen that are nearly as good as the best"""

    @model_validator(mode="before")
    @classmethod
    def _plain_list(cls, objectives: Any) -> Any:
        if not isinstance(objectives, list):
            return objectives
        if len(objectives) != 2 or objectives[1] != "cost":
            raise ValueError("a list of objectives is [dev, cost]")
        return {"metric": objectives[0], "cost": True}


Numbers = Annotated[list[Annotated[int, Field(ge=0, lt=SEEDS)]], Field(min_length=1), _ONCE]


class Repeats(SpacePart):
    """The seeds on which a configuration is run, and the label subsets.

    The label subsets matter only to a configuration that uses a share of the labels.
    """

    seeds: Numbers
    subsets: Numbers = Field(default_factory=lambda: [0])


SEARCH_REPEATS = Repeats(seeds=[42])
"""Seeds and subsets on which a configuration is tried, where nothing else is said"""


class Space(SpacePart):
    """The content of a search-space file."""

    setting: Settings = Field(default=["unsup"])
    suite: str = "sts"
    select: Select = Select()
    search: Repeats = SEARCH_REPEATS
    final: Repeats = Repeats(seeds=[0, 1, 2])
    pruner: Pruner | None = None
    encoders: Encoders
    corpora: dict[str, CorpusName] = Field(default_factory=dict)
    set: Values = Field(default_factory=dict)
    methods: dict[
        str, Annotated[MethodSpace, BeforeValidator(lambda given: {} if given is None else given)]
    ] = Field(min_length=1)

    def part(self, method: str) -> MethodSpace:
        """The part of a method; one that the space does not have has its published values."""
        return self.methods.get(method, MethodSpace())


def load_space(path: Path) -> tuple[Space, Document]:
    """The search space of a file, and the document that knows its lines.

    Raises UserError with file and line for whatever is wrong with the space itself. Hyperparameters
    are checked against their methods later, by `harness.sweeps.spaces.searches.searches`.
    """
    document = read_document(path)
    space = document.parse(Space)
    if space.corpora:
        document = with_whole_names(document, space.corpora)
        space = document.parse(Space)
    _check_selector(space, document)
    _check_pruner(space, document)
    for name, part in space.methods.items():
        _check_method(name, part, document)
    return space, document


def _check_selector(space: Space, document: Document) -> None:
    try:
        dev = _dev(space.suite)
    except UserError as error:
        raise document.error(("suite",), str(error)) from None
    location: Location = ("select", "metric") if "select" in document.content else ("suite",)
    if location == ("suite",) and space.select.metric not in (DEV, dev):
        # The default is the dev score of `sts`, which nobody has asked for here.
        raise document.error(
            location, f'suite {space.suite} has no dev score "{space.select.metric}"; valid: {dev}'
        )
    try:
        selector(space)
    except UserError as error:
        raise document.error(location, str(error)) from None


def selector(space: Space) -> str | None:
    """The dev score of another suite by which a space selects; None: that of its own suite.

    Raises UserError for a test score, and for a score that no suite has.
    """
    metric = space.select.metric
    if metric in (DEV, _dev(space.suite)):
        return None
    measured = suite(space.suite)
    return None if choosing(measured, metric) is measured else metric


def _dev(name: str) -> str:
    """The dev score of a suite, of a shipped one without its data and NumPy."""
    card = CARDS.get(name)
    return card.dev if card and card.dev else suite(name).dev


def _check_pruner(space: Space, document: Document) -> None:
    pruner, repeats = space.pruner, len(space.search.seeds) * len(space.search.subsets)
    if pruner is not None and space.select.cost:
        raise document.error(
            ("pruner",), "a pruner looks at dev alone, and this space selects by cost, too"
        )
    if pruner is not None and not isinstance(pruner, Wilcoxon) and (other := selector(space)):
        raise document.error(
            ("pruner",),
            f"{pruner.name} looks at the dev score of the suite while a trial trains, and this "
            f"space selects by {other}; leave out the pruner, or use wilcoxon",
        )
    if isinstance(pruner, Wilcoxon) and repeats <= pruner.least_seeds:
        raise document.error(
            ("pruner",),
            f"wilcoxon cannot decide before {pruner.least_seeds} seeds with a p_threshold of "
            f"{pruner.p_threshold:g}; write at least {pruner.least_seeds + 1} seeds under search",
        )
    for name, part in space.methods.items():
        if space.select.cost and part.sampler and part.sampler.name in ONE_OBJECTIVE:
            raise document.error(
                ("methods", name, "sampler"),
                f"{part.sampler.name} has one objective, and this space selects by dev and cost; "
                f"use nsga-ii",
            )


def _check_method(name: str, part: MethodSpace, document: Document) -> None:
    location: Location = ("methods", name)
    kinds = [kind for kind in ("grid", "rounds", "ranges") if getattr(part, kind) is not None]
    if len(kinds) > 1:
        raise document.error(
            location, f"{' and '.join(kinds)} exclude each other; keep one of them"
        )
    rounds = list(part.located_rounds(location))
    for where, axes in rounds:
        if kinds and where[2] == "variants":
            raise document.error(
                where,
                f"{kinds[0]} of the method and the grid of a variant exclude each other; "
                f"keep one of them",
            )
        if where[2] != "rounds" and not axes:
            raise document.error(
                where, "the grid is empty; name a hyperparameter, or leave grid out"
            )
    if (part.ranges is None) != (part.sampler is None):
        raise document.error(location, "ranges need a sampler, and a sampler needs ranges")
    if wrong := condition_problem(part.ranges or {}):
        key, problem = wrong
        raise document.error((*location, "ranges", key), problem)
    for variant, own in (part.variants or {}).items():
        searched = {*itertools.chain(*part.rounds_of(variant), part.ranges or {})}
        if both := sorted(searched & own.values.keys()):
            raise document.error(
                (*location, "variants", variant, both[0]),
                f"{both[0]} is searched as well; leave it out of the variant or of the search",
            )
    earlier: list[Round] = []
    for where, axes in rounds:
        if not axes:
            raise document.error(where, "the round is empty; name a hyperparameter")
        if wrong := size_problem(axes, earlier):
            key, problem = wrong
            raise document.error((*where, key), problem)
        if where[2] == "rounds":
            earlier.append(axes)


def replaced_names(value: Any, corpora: Mapping[str, CorpusName]) -> Any:
    """The value with what the short names stand for, also inside of lists and mappings.

    The whole name of a corpus is what trials, keys and records have, so that it means the same in
    all of them, and on the command line.
    """
    if isinstance(value, Mapping):
        return {key: replaced_names(inner, corpora) for key, inner in value.items()}
    if isinstance(value, list):
        return [replaced_names(inner, corpora) for inner in value]
    return str(corpora[value]) if isinstance(value, str) and value in corpora else value


def with_whole_names(document: Document, corpora: Mapping[str, CorpusName]) -> Document:
    """The document of a space with whole names in place of the short ones.

    Raises UserError for a short name that is one of a corpus that comes with harness.
    """
    for name in corpora:
        if name in SOURCES:
            raise document.error(
                ("corpora", name),
                "this is the name of a corpus that comes with harness; use another",
            )
    parts = {key: document.content[key] for key in ("set", "methods") if key in document.content}
    return replace(document, content=document.content | replaced_names(parts, corpora))
