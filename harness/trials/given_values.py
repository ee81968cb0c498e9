"""What must be given to get a configuration: what differs from the published values."""

from typing import Any

from harness.errors import UserError
from harness.plugin.config import MethodConfig
from harness.plugin.registry import Plugin
from harness.plugin.resolution import resolve


def given_values(plugin: Plugin, config: MethodConfig) -> dict[str, Any]:
    """Hyperparameter -> value; with these and the encoder, the method has this configuration.

    All others have their published values, or follow from the given ones.
    """
    wanted = dict(config)
    given: dict[str, Any] = {"encoder": config.encoder, "setting": config.setting}
    # A given value may change what others follow from it, so one comparison is not enough.
    while differing := _differing(plugin, given, wanted):
        given |= differing
    # The setting goes last, since what is published depends on it.
    for name in [*[*given][:1:-1], "setting"]:
        fewer = {other: value for other, value in given.items() if other != name}
        if not _differing(plugin, fewer, wanted):
            given = fewer
    del given["encoder"]
    return given


def _differing(plugin: Plugin, given: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The values that a method lacks when some are given."""
    try:
        found = dict(resolve(plugin, given))
    except UserError:  # some values go together only
        found = {}
    return {
        name: value
        for name, value in wanted.items()
        if name not in given and (name not in found or found[name] != value)
    }
