"""`--set KEY=VALUE`: a field of text takes what was typed, a field of numbers a number."""

import pytest

from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.sweep.spaces.written_values import read_values

TEXTS = [
    "a #b.txt", "a: b.txt", "[a].txt", "{a}", "*.txt", "&a", "!b", "yes", "no", "1e5", "0x10",
    "1_000", "2024-01-02", "007", "ends in a space ", "~", "'quoted'", "%d{}", "1:30",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_taken_as_it_is_typed(text: str) -> None:
    plugin = registry.load("simcse")
    values = read_values({"sentences": text, "suite": text}, [plugin])
    assert values == {"sentences": text, "suite": text}
    assert vars(resolve(plugin, values))["sentences"] == text


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("learning_rate", "3e-5", 3e-5), ("batch_size", "010", 10), ("batch_size", "8", 8),
        ("max_steps", "null", None), ("max_steps", "5", 5), ("gradient_checkpointing", "no", False),
        ("precision", "fp32", "fp32"),
    ],
)  # fmt: skip
def test_a_number_is_a_number(key: str, text: str, value: object) -> None:
    plugin = registry.load("simcse")
    found = read_values({key: text}, [plugin])
    assert vars(resolve(plugin, found))[key] == value
    assert type(found[key]) is type(value)


@pytest.mark.parametrize("text", ["0x10", "1:30", "[8]", "8 # eight", "true"])
def test_a_number_field_refuses_what_is_no_number(text: str) -> None:
    plugin = registry.load("simcse")
    with pytest.raises(UserError, match="batch_size"):
        resolve(plugin, read_values({"batch_size": text}, [plugin]))
