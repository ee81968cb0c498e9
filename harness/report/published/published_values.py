"""The values that a method has where nothing is set: the paper's, and its defaults."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from harness.plugin import registry
from harness.report.published.matching import ANY, Wanted


@cache
def published_values(target: Wanted) -> Mapping[str, Any]:
    """Every field of the configuration that a sweep of a published row starts from.

    It is that of the paper's encoder. Empty where the row needs something of the user's, since the
    method refuses it without.
    """
    if target.needs:
        return {}
    config = registry.load(target.method).config_type(
        encoder=target.published_encoder or target.encoder,
        setting=target.setting,
        **{name: value for name, value in target.configuration if value != ANY},
    )
    return config.deciding()
