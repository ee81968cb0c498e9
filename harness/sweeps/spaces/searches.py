"""The searches of a search space, after the command line has narrowed it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from harness.data.revisions import trained_name
from harness.document import Document, Location
from harness.errors import UserError, suggest
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.registry import is_path, located, plain_name
from harness.plugin.resolution import resolve, with_own_corpus
from harness.sweeps.spaces.axes import MOST_TRIALS, Values, bound
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.space import (
    SEARCH_REPEATS,
    MethodSpace,
    Repeats,
    SetValues,
    Space,
    TrainedEncoder,
    TrainedModel,
    replaced_names,
    selector,
)
from harness.sweeps.spaces.values import (
    check_command_line,
    check_shared,
    check_values,
    plain_values,
    pretrained,
    read_values,
    trained_models,
)


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
    check_command_line(overrides.values, plugins)
    check_shared(space, document, plugins)
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
    labels = Counter(search.label for search in searches)
    return [
        replace(search, whole_name=True) if labels[search.label] > 1 else search
        for search in searches
    ]


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
        sampler, limit = part.sampler, overrides.configurations
        if sampler and limit is not None:
            sampler = sampler.model_copy(update={"configurations": limit})
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
            sampler=sampler if ranges else None,
            repeats={"search": space.search, "final": final},
            limit=limit,
            pruner=space.pruner,
            by_cost=space.select.cost,
        ).simplified()


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


# The methods that a space names, by name or by the path of a plugin


def locators_of(space: Space, document: Document, wanted: Sequence[str]) -> dict[str, str]:
    """Method as the space names it -> where to load it from, for those that are wanted.

    wanted: names or paths of the command line, which go before the paths of the space; empty: all.
    """
    by_name: dict[str, str] = {}
    for named in space.methods:
        if by_name.setdefault(plain_name(named), named) != named:
            raise document.error(
                ("methods", named), f'two methods of the space are called "{plain_name(named)}"'
            )
    chosen = {} if wanted else {named: _in_space(named, document) for named in space.methods}
    for wish in wanted:
        named = by_name.get(wish, wish)
        if named in space.methods and is_path(named):
            chosen[named] = _in_space(named, document)
            continue
        name = registry.name_of(registry.locate(wish))
        if name not in by_name:
            raise UserError(f'{document.path} has no method "{name}"{suggest(name, by_name)}')
        chosen[by_name[name]] = wish
    return {named: chosen[named] for named in space.methods if named in chosen}


def _in_space(named: str, document: Document) -> str:
    return located(named, document, ("methods", named))


def encoders_of(
    part: MethodSpace, space: Space, wanted: Sequence[str]
) -> list[str | TrainedEncoder]:
    """The encoders of a method.

    wanted: those of the command line; a method that trains an encoder starts from them, too.
    """
    encoders = part.encoders or space.encoders
    if not wanted:
        return encoders
    trained = [encoder for encoder in encoders if isinstance(encoder, TrainedEncoder)]
    trainers = {(encoder.trained_by, encoder.setting): encoder for encoder in trained}
    return [
        *(wanted if len(trained) < len(encoders) else ()),
        *(
            encoder.model_copy(update={"encoder": name})
            for encoder in trainers.values()
            for name in wanted
        ),
    ]


def trainers_of(
    name: str,
    locators: Mapping[str, str],
    space: Space,
    document: Document,
    users: tuple[str, ...] = (),
    *,
    encoders: bool = True,
) -> dict[str, str]:
    """The methods that train a model for the method `name`: method -> where to load it from.

    Those that train a model for them are among them. locators: the same for the methods of the
    sweep. users: the methods for which `name` itself trains a model. encoders: whether its encoders
    count; one that trains for others starts from a pretrained one. Raises UserError with the line
    of the model.
    """
    part, trainers = space.part(name), dict[str, str]()
    base = pretrained((part.encoders or space.encoders)[0])
    for where, model in _trained(name, part, space):
        method, is_encoder = model.trained_by, isinstance(model, TrainedEncoder)
        of_trainer: Location = (*where, "trained_by")
        if is_encoder and not encoders:
            continue
        if not is_encoder and method in (name, *users):
            raise document.error(of_trainer, f"{name} cannot begin before {method} has ended")
        trainers[method] = locators.get(method) or located(method, document, of_trainer)
        if space.part(method).variants:
            raise document.error(
                of_trainer, f"{method} has variants, and only one can train the encoder"
            )
        for setting in part.setting or space.setting:
            if not is_encoder:
                user = registry.load(locators.get(name) or located(name, document, where))
                trained = trained_name(base, "0" * 32)
                values = {"setting": setting, "encoder": base, str(where[-1]): trained}
                if trained not in user.declare(resolve(user, values, document.where(where))).models:
                    raise document.error(where, f"{where[-1]} names no model that {name} loads")
            values = {"encoder": model.encoder or base, "setting": model.setting or setting}
            values |= {"suite": space.suite}
            if not _trains_encoder(trainers[method], values, document, where):
                raise document.error(of_trainer, f"{method} does not train its encoder")
        above = () if is_encoder else (*users, name)
        trainers |= trainers_of(method, locators, space, document, above, encoders=False)
    return trainers


def _trained(name: str, part: MethodSpace, space: Space) -> Iterator[tuple[Location, TrainedModel]]:
    """The models of a method that others train, each with its place in the file."""
    where: Location = ("methods", name, "encoders") if part.encoders else ("encoders",)
    for number, encoder in enumerate(part.encoders or space.encoders):
        if isinstance(encoder, TrainedEncoder):
            yield (*where, number), encoder
    layers: dict[Location, SetValues] = {("methods", name, "set"): part.set}
    for variant, own in (part.variants or {}).items():
        layers["methods", name, "variants", variant] = own.values
    for where, layer in layers.items():
        for hyperparameter, model in trained_models(layer).items():
            yield (*where, hyperparameter), model


def _trains_encoder(locator: str, values: Values, document: Document, where: Location) -> bool:
    """Whether a method with these values trains its encoder."""
    from harness.trials.lookup import IN_A_METHOD  # with the store, and so with pyarrow

    plugin = registry.load(locator)
    stages = plugin.declare(resolve(plugin, values, document.where(where))).stages
    patterns = [pattern for stage in stages for pattern in stage.trains]
    return any(fnmatchcase(f"{IN_A_METHOD}weight", pattern) for pattern in patterns)
