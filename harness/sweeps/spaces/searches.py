"""The searches of a search space, after the command line has narrowed it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from harness.document import Document
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.resolution import with_own_corpus
from harness.sweeps.spaces.axes import MOST_TRIALS, Values, bound
from harness.sweeps.spaces.methods import (
    encoders_of,
    locators_of,
    plain_values,
    pretrained,
    trained_models,
    trainers_of,
)
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.space import (
    SEARCH_REPEATS,
    MethodSpace,
    Repeats,
    Sampler,
    Space,
    TrainedEncoder,
    replaced_names,
    selector,
)
from harness.sweeps.spaces.values import check_command_line, check_shared, check_values, read_values


def searches(space: Space, document: Document, overrides: Overrides) -> list[Search]:
    """One search per method, setting, encoder and variant, in the file's order.

    Raises UserError for an unknown method, corpus or hyperparameter, and for a value that a method
    refuses.
    """
    wanted = locators_of(space, document, overrides.methods)
    locators = dict(wanted)
    for name in wanted:
        locators |= trainers_of(name, wanted, space, document)
    plugins = [registry.load(locator) for locator in locators.values()]
    values = read_values(replaced_names(overrides.values, space.corpora), plugins)
    overrides = replace(overrides, values=values)
    check_shared(space, document, plugins)
    check_command_line(overrides.values, plugins)
    made = _Searches(space, overrides, locators)
    searches: list[Search] = []
    total = 0
    for name, locator in wanted.items():
        check_values(registry.load(locator), name, space, document)
        for search in made.of(name):
            searches.append(search)
            total += search.most_trials
            if total > MOST_TRIALS:
                raise document.error(
                    ("methods", name),
                    f"with this method, the space would have up to {total} trials "
                    f"(configurations x seeds x subsets of all searches); at most {MOST_TRIALS} "
                    "can be planned",
                )
    for search in searches:
        search.declared.check()  # an unknown corpus is refused here, before anything runs
    return searches


@dataclass(frozen=True)
class _Searches:
    """Makes the searches of a space that the command line has narrowed."""

    space: Space
    overrides: Overrides
    locators: Mapping[str, str]
    """Method as the space names it -> where to load it from"""

    def of(self, name: str) -> Iterator[Search]:
        """The searches of one method."""
        part, values = self.space.methods[name], self.overrides.values
        wanted = self.overrides.encoders
        wanted = (values["encoder"],) if "encoder" in values else wanted
        settings = part.setting or self.space.setting
        settings = [values["setting"]] if "setting" in values else settings
        encoders = encoders_of(part, self.space, wanted)
        for setting, encoder, variant in product(settings, encoders, part.variants or [""]):
            yield self._started(name, variant, setting, encoder)

    def _started(
        self, name: str, variant: str, setting: str, encoder: str | TrainedEncoder
    ) -> Search:
        """The search of a method, with those that train its models."""
        part, base = self.space.part(name), pretrained(encoder)
        models = trained_models({**part.set, **part.variant(variant).values})
        models = {key: each for key, each in models.items() if key not in self.overrides.values}
        if isinstance(encoder, TrainedEncoder):
            models = {"encoder": encoder, **models}
        trainers = {
            # The variants of the other method would each train another model.
            key: self._started(each.trained_by, "", each.setting or setting, each.encoder or base)
            for key, each in models.items()
        }
        return replace(self._search(name, variant, setting, base), trainers=trainers)

    def _search(self, name: str, variant: str, setting: str, encoder: str) -> Search:
        """The search of a method; one that the space does not have has its published values."""
        space, overrides = self.space, self.overrides
        part, locator = space.part(name), self.locators[name]
        plugin = registry.load(locator)
        fields = plugin.config_type.model_fields
        own = {"setting": setting, "encoder": encoder}
        merged: Values = {"suite": space.suite}
        for layer in (
            space.set,
            plain_values(part.set, encoder),
            plain_values(part.variant(variant).values, encoder),
            overrides.values,
        ):  # the later wins
            values = with_own_corpus(plugin, layer, merged | own)
            merged |= values
        # A suite of the command line may have the score itself.
        if (metric := selector(space)) and metric != suite(str(merged["suite"])).card.dev:
            merged["selected_by"] = metric
        fixed = {key: value for key, value in (merged | own).items() if key in fields}
        # What the last layer sets, with the method's own names, is not searched.
        free = [overrides.searched(axes, values) for axes in part.rounds_of(variant)]
        # It refuses a bad value now, before anything runs.
        ranges = bound(plugin, fixed, overrides.searched(part.ranges or {}, values))
        final = Repeats(
            seeds=list(overrides.seeds) or space.final.seeds,
            subsets=list(overrides.subsets) or space.final.subsets,
        )
        return Search(
            method=locator,
            variant=variant,
            fixed=fixed,
            rounds=tuple(axes for axes in free if axes),
            ranges=ranges,
            sampler=self._sampler(part) if ranges else None,
            repeats={"search": space.search, "final": final},
            limit=overrides.configurations,
            pruner=space.pruner,
            by_cost=space.select.cost,
        ).simplified()

    def _sampler(self, part: MethodSpace) -> Sampler | None:
        limit = self.overrides.configurations
        if part.sampler is None or limit is None:
            return part.sampler
        return part.sampler.model_copy(update={"configurations": limit})


FINAL_SEEDS, FINAL_SUBSETS = (0, 1, 2), (0, 1, 2, 3, 4)
"""The final seeds, and the label subsets where a share of the labels is used (diffaug.md, section
7)"""
PLAIN = Overrides()
"""A command line that changes nothing"""


def published_search(
    method: str,
    variant: str,
    values: Values,
    overrides: Overrides = PLAIN,
    axes: Mapping[str, Sequence[Any]] | None = None,
) -> Search:
    """The search of a method's published values, and of the `values` in which it differs.

    overrides: their values go before these, and their seeds and subsets before the usual ones.
    axes: the values of what the paper has searched.
    Raises UserError for a value that the method refuses, and for an unknown corpus.
    """
    plugin = registry.load(method)
    fields = plugin.config_type.model_fields
    named = with_own_corpus(plugin, overrides.values, values)
    changed = {name: value for name, value in named.items() if name in fields}
    repeats = Repeats(
        seeds=list(overrides.seeds or FINAL_SEEDS), subsets=list(overrides.subsets or FINAL_SUBSETS)
    )
    free = overrides.searched(axes or {}, overrides.values)
    search = Search(
        method=method,
        variant=variant,
        fixed={**values, **changed},
        rounds=({name: list(tried) for name, tried in free.items()},) if free else (),
        ranges={},
        sampler=None,
        repeats={"search": SEARCH_REPEATS if free else repeats, "final": repeats},
        limit=overrides.configurations,
    )
    search.declared.check()
    return search
