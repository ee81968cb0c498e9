"""What must be given to get a configuration: enough, and nothing that is published anyway."""

import itertools
from typing import Any

import pytest

from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.config import MethodConfig
from harness.plugin.registry import Plugin
from harness.plugin.resolution import given_values, resolve


@pytest.mark.parametrize(
    ("method", "values", "given"),
    [
        ("simcse", {}, {}),
        ("simcse", {"encoder": "roberta-base"}, {}),
        ("simcse", {"setting": "sup"}, {"setting": "sup"}),
        ("simcse", {"learning_rate": "1e-5", "epochs": 7}, {"learning_rate": 1e-5, "epochs": 7}),
        ("simcse", {"learning_rate": 3e-5}, {}),  # it is published for this encoder
        ("dcpcse", {"setting": "sup", "mlm": True}, {"setting": "sup", "mlm": True}),
        ("whitening", {"dimensions": 256}, {"dimensions": 256}),
    ],
)  # fmt: skip
def test_only_what_differs_is_given(
    method: str, values: dict[str, Any], given: dict[str, Any]
) -> None:
    plugin = registry.load(method)
    assert given_values(plugin, resolve(plugin, values)) == given


@pytest.mark.parametrize("method", registry.names())
def test_the_given_values_give_the_configuration(method: str) -> None:
    """Every switch and every number is changed in turn, also those on which others depend."""
    plugin = registry.load(method)
    changes: list[dict[str, Any]] = [{}]
    for name, field in plugin.config_type.model_fields.items():
        if isinstance(field.default, bool):
            changes.append({name: not field.default})
        elif isinstance(field.default, int | float):
            changes.append({name: field.default * 2})
    tried = 0
    for setting, change in itertools.product(("unsup", "semisup", "sup"), changes):
        config = allowed(plugin, {"setting": setting, **change})
        if config is None:
            continue
        tried += 1
        given = given_values(plugin, config)
        assert allowed(plugin, {"encoder": config.encoder, **given}) == config
        for name in given:
            fewer = {other: value for other, value in given.items() if other != name}
            assert allowed(plugin, {"encoder": config.encoder, **fewer}) != config
    assert tried or method == "glove"  # it needs the name of a file


def allowed(plugin: Plugin, values: dict[str, Any]) -> MethodConfig | None:
    """The configuration; None where a method refuses it."""
    try:
        return resolve(plugin, values)
    except UserError:
        return None
