"""The command that a record prints runs the same trial again."""

import shlex
from typing import Any

import pytest

from harness.cli import options
from harness.cli.run_again import run_command
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.sweep.spaces.written_values import read_values
from harness.trials.record import Record


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("dcpcse", {}),  # its template has a colon and a brace, which YAML reads as a mapping
        ("dcpcse", {"template": 'He said "{s}" # [MASK]', "mlm": True, "learning_rate": 1e-5}),
        ("promptbert", {"template": "{s} : [MASK]", "second_template": "no, '{s}' [MASK]"}),
        ("simcse", {"sentences": "1e3", "triplets": "null"}),
    ],
)
def test_the_printed_configuration_is_read_back_as_it_was(
    method: str, values: dict[str, Any]
) -> None:
    config = resolve(registry.load(method), values)
    record = Record(
        key="1" * 32,
        status="finished",
        role="final",
        method=method,
        setting=config.setting,
        encoder=config.encoder,
        seed=0,
        configuration=config.model_dump(mode="json"),
    )
    words = shlex.split(run_command(record, method))
    given = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    read = read_values(options.set_values(given), [registry.load(method)])
    assert resolve(registry.load(method), {**read, "encoder": config.encoder}) == config
