"""The methods that a search space names, by name or by the path of a plugin."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from harness.data.revisions import trained_name
from harness.document import Document, Location
from harness.errors import UserError, suggest
from harness.plugin import registry
from harness.plugin.registry import is_path, located, plain_name
from harness.plugin.resolution import resolve
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.space import (
    MethodSpace,
    SetValues,
    Space,
    TrainedEncoder,
    TrainedModel,
)


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


def trained_models(values: SetValues) -> dict[str, TrainedModel]:
    """Hyperparameter -> the model that another method trains, for those that have one."""
    return {name: each for name, each in values.items() if isinstance(each, TrainedModel)}


def plain_values(values: SetValues, encoder: str) -> Values:
    """The values, with the pretrained model in the place of each that another method trains.

    encoder: that of the search, for those that name none.
    """
    models = {name: each.encoder or encoder for name, each in trained_models(values).items()}
    return {**values, **models}


def pretrained(encoder: str | TrainedEncoder) -> str:
    """The name of the pretrained model behind an encoder of a space."""
    return encoder.encoder if isinstance(encoder, TrainedEncoder) else encoder
