"""The configuration of a method from the values that are given, the paper's values and defaults."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from harness.errors import UserError, reason, suggest
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.registry import Plugin


def resolve(plugin: Plugin, values: Mapping[str, Any], where: str = "") -> MethodConfig:
    """The method's configuration from given values, the paper's values and defaults.

    Raises UserError for an unknown hyperparameter, a wrong type or a value out of range. `where` is
    the beginning of its message, such as a file and a line.
    """
    fields = plugin.config_type.model_fields
    for key in values:
        if key not in fields:
            raise UserError(
                f'{where}method {plugin.name} has no hyperparameter "{key}"{suggest(key, fields)}'
            )
    try:
        return plugin.config_type(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")  # a rule between fields has no name
        place = f"{name} = {first.get('input')!r}: " if name else ""
        raise UserError(f"{where}{plugin.name}: {place}{message}") from None
    except UserError:
        raise
    except Exception as error:  # a plugin's own rules may raise anything
        raise UserError(
            f"{where}{plugin.name}: its configuration raises {reason(error)}"
        ) from error


class Configuration(Mapping[str, Any]):
    """Values that a method is given, and what it declares under them.

    They are resolved once, when it is made, and all trials with these values share it. As a mapping
    it has the values as they were given. Raises UserError as `resolve` and `registry.load`.
    """

    def __init__(self, method: str, values: Mapping[str, Any]) -> None:
        """method: name or path of the plugin."""
        plugin = registry.load(method)
        self.method, self._values = method, dict(values)
        self.declared = plugin.declare(resolve(plugin, values))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def given_values(plugin: Plugin, config: MethodConfig) -> dict[str, Any]:
    """Hyperparameter -> value; with these and the encoder, the method has this configuration.

    All others have their published values, or follow from the given ones.
    """
    wanted = dict(config)
    values: dict[str, Any] = {"encoder": config.encoder, "setting": config.setting}
    # A given value may change what others follow from it, so one comparison is not enough.
    while differing := _differing(plugin, values, wanted):
        values |= differing
    # The setting goes last, since what is published depends on it.
    for name in [*[*values][:1:-1], "setting"]:
        fewer = {other: value for other, value in values.items() if other != name}
        if not _differing(plugin, fewer, wanted):
            values = fewer
    del values["encoder"]
    return values


def _differing(plugin: Plugin, values: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The values that a method lacks when some are given."""
    try:
        current = dict(resolve(plugin, values))
    except UserError:  # some values go together only
        current = {}
    return {
        name: value
        for name, value in wanted.items()
        if name not in values and (name not in current or current[name] != value)
    }
