"""YAML that is no YAML, or that is too large to be read."""

from pathlib import Path

import pytest

from harness.document import LARGEST
from tests.cli.conftest import Refused

pytestmark = pytest.mark.slow


CONTENTS = {
    "brackets": ("a: " + "[" * 100_000, "nested too deep"),
    "blocks": ("".join(" " * n + "a:\n" for n in range(900)), "nested too deep"),
    "cycle": ("a: &x [*x]\n", "contains itself"),
    "twice": ("set:\n  seeds: 1\nset: {}\n", "line 3: set is written twice"),
    "no alias": ("a: *nobody\n", "line 1: not valid YAML: found undefined alias"),
    "digits": ("a: " + "9" * 5000, "5000 digits"),
    "hexadecimal": ("set: {batch_size: 0x" + "f" * 5000 + "}", ""),
    "empty number": ("a: !!int ''\n", "not valid YAML"),
    "no such date": ("a: 2026-13-45\n", ""),
    "foreign": ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
    "merge of a number": ("<<: 3\na: 1\n", "not valid YAML"),
    "mapping as key": ("? {a: 1}\n: 1\n", "a key must be a word"),
    "documents": ("a: 1\n--- \nb: 1\n", "another document"),
    "nothing": ("", "must be a mapping of keys to values"),
    "list": ("[1, 2]\n", "must be a mapping"),
    "tabulator": ("set: {}\n\tmethods: {}\n", "line 2: not valid YAML"),
    "open quote": ("a: 1\nb: 'c\n", "line 3: not valid YAML"),
    "20 MB": (b"a: 1\n" * 4_000_000, f"20000000 bytes; at most {LARGEST}"),
    "zeros": (b"\0" * 1000, "not valid YAML"),
    "latin": ("a: é\n".encode("latin-1"), "not UTF-8"),
    "escape": (b"a: \x1b[31m\n", "not valid YAML"),
}


@pytest.mark.parametrize(("content", "part"), CONTENTS.values(), ids=CONTENTS)
def test_content(content: str | bytes, part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    refused(["plan", path], path, part)


VALUES = {
    "nested list": "[[[[1]]]]",
    "deep list": "[" * 3000 + "]" * 3000,
    "cycle": "&a [*a]",
    "digits": "9" * 5000,
    "foreign": "!!python/name:os.system",
    "date": "2020-01-01",
    "documents": "1\n--- 2",
    "list as key": "{[a]: 1}",
    "null": "null",
    "empty": "",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_set_to_odd_yaml(value: str, refused: Refused) -> None:
    target = ["simcse", "--encoder", "tiny-bert"]
    refused(["run", *target, "--set", f"learning_rate={value}"], "learning_rate")
