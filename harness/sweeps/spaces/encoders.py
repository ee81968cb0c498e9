"""The encoders of a method in a search space, also those that another method trains first."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.sweeps.spaces.space import MethodSpace, Space, TrainedEncoder
from harness.sweeps.spaces.space_methods import located
from harness.sweeps.spaces.yaml_lines import Document, Location
from harness.trials.lookup import IN_A_METHOD


def encoders_of(
    part: MethodSpace, space: Space, wanted: Sequence[str]
) -> list[str | TrainedEncoder]:
    """The encoders of a method.

    wanted: those of the command line; a method that trains an encoder starts from them, too.
    """
    given = part.encoders or space.encoders
    if not wanted:
        return given
    trained = [each for each in given if isinstance(each, TrainedEncoder)]
    trainers = {(each.trained_by, each.setting): each for each in trained}
    return [
        *(wanted if len(trained) < len(given) else ()),
        *(
            each.model_copy(update={"encoder": name})
            for each in trainers.values()
            for name in wanted
        ),
    ]


def trainers_of(
    name: str, locators: Mapping[str, str], space: Space, document: Document
) -> dict[str, str]:
    """The methods that train an encoder for the method `name`: method -> where to load it from.

    locators: the same for the methods of the sweep. Raises UserError with the line of the encoder.
    """
    part, found = space.methods[name] or MethodSpace(), dict[str, str]()
    where: Location = ("methods", name, "encoders") if part.encoders else ("encoders",)
    for number, each in enumerate(part.encoders or space.encoders):
        if isinstance(each, TrainedEncoder):
            method, place = each.trained_by, (*where, number, "trained_by")
            found[method] = locators.get(method) or located(method, document, place)
            for setting in part.setting or space.setting:
                whole = each.model_copy(update={"setting": each.setting or setting})
                _check_trained(whole, (*where, number), found[method], space, document)
    return found


def _check_trained(
    each: TrainedEncoder, where: Location, locator: str, space: Space, document: Document
) -> None:
    method = each.trained_by
    if (space.methods.get(method) or MethodSpace()).variants:
        raise document.error(
            (*where, "trained_by"),
            f"{method} has variants, and only one can train the encoder",
        )
    plugin = registry.load(locator)
    values = {"setting": each.setting, "suite": space.suite, "encoder": each.encoder}
    stages = plugin.declare(resolve(plugin, values, document.where(where))).stages
    trained = [pattern for stage in stages for pattern in stage.trains]
    if not any(fnmatchcase(f"{IN_A_METHOD}weight", pattern) for pattern in trained):
        raise document.error((*where, "trained_by"), f"{method} does not train its encoder")


def pretrained(encoder: str | TrainedEncoder) -> str:
    """The name of the pretrained model behind an encoder of a space."""
    return encoder.encoder if isinstance(encoder, TrainedEncoder) else encoder
