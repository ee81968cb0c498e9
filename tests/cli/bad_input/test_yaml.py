"""YAML that is no YAML, that stands for too much, or that is too large to be read."""

from pathlib import Path

import pytest

from harness.sweeps.spaces.document import DEEPEST, LARGEST, MOST_VALUES
from tests.cli.bad_input.conftest import Refused

pytestmark = pytest.mark.slow


def bomb(levels: int) -> str:
    """Nine aliases of nine aliases of ...: 9**levels values in some lines."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def merge_bomb(levels: int) -> str:
    lines = ["m0: &m0 {a: 1, b: 2}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


CONTENTS = {
    "aliases": (bomb(30), f"more than {MOST_VALUES} values"),
    "merges": (merge_bomb(20), f"more than {MOST_VALUES} values"),
    "brackets": ("a: " + "[" * 100_000, f"more than {DEEPEST} levels"),
    "braces": ("a: " + "{b: " * 60 + "1" + "}" * 60, f"more than {DEEPEST} levels"),
    "blocks": ("".join(" " * n + "a:\n" for n in range(200)), f"more than {DEEPEST} levels"),
    "dashes": ("- " * 5000 + "a\n", f"more than {DEEPEST} levels"),
    "long list": ("a: [" + "1, " * MOST_VALUES + "1]", f"more than {MOST_VALUES} keys"),
    "keys": ("".join(f"k{n}: 1\n" for n in range(MOST_VALUES)), f"more than {MOST_VALUES} keys"),
    "cycle": ("a: &x [*x]\n", "contains itself"),
    "far cycle": ("a: &x {b: {c: *x}}\n", "contains itself"),
    "no alias": ("a: *nobody\n", "line 1: not valid YAML: found undefined alias"),
    "digits": ("a: " + "9" * 5000, "whole number of 5000 digits is beyond 64 bits"),
    "hexadecimal": ("a: 0x" + "f" * 5000, "beyond 64 bits"),
    "sexagesimal": ("a: " + "1:" * 500 + "1", "beyond 64 bits"),
    "empty number": ("a: !!int ''\n", "not valid YAML"),
    "no number": ("a: !!float abc\n", "not valid YAML"),
    "no time": ("a: !!timestamp x\n", "not valid YAML"),
    "no such date": ("a: 2026-13-45\n", ""),
    "foreign": ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
    "merge of a number": ("<<: 3\na: 1\n", "not valid YAML"),
    "mapping as key": ("? {a: 1}\n: 1\n", "a key must be a word"),
    "list as key": ("? [1]\n: 2\n", ""),
    "documents": ("a: 1\n--- \nb: 1\n", "another document"),
    "version": ("%YAML 99.9\n---\na: 1\n", "not valid YAML"),
    "nothing": ("", "must be a mapping of keys to values"),
    "comment": ("# nothing\n", "must be a mapping"),
    "null": ("null\n", "must be a mapping"),
    "spaces": (" " * 1000, "must be a mapping"),
    "words": ("just words\n", "must be a mapping"),
    "list": ("[1, 2]\n", "must be a mapping"),
    "open bracket": ("methods: [simcse\nset: {}\n", "line 2: not valid YAML"),
    "tabulator": ("set: {}\n\tmethods: {}\n", "line 2: not valid YAML"),
    "open quote": ("a: 1\nb: 'c\n", "line 3: not valid YAML"),
    "20 MB": (b"a: 1\n" * 4_000_000, f"20000000 bytes; at most {LARGEST}"),
    "zeros": (b"\0" * 1000, "not valid YAML"),
    "latin": ("a: é\n".encode("latin-1"), "not UTF-8"),
    "utf-16": ("a: 1\n".encode("utf-16"), "not UTF-8"),
    "zip": (b"PK\x03\x04\x14\x00\x06\x00\x08", "not valid YAML"),
    "escape": (b"a: \x1b[31m\n", "not valid YAML"),
}


@pytest.mark.parametrize(("content", "part"), CONTENTS.values(), ids=CONTENTS)
def test_content(content: str | bytes, part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    refused(["plan", path], path, part)


VALUES = {
    "nested list": "[[[[1]]]]",
    "nested map": "{a: {b: {c: 1}}}",
    "deep list": "[" * 3000 + "]" * 3000,
    "bomb": bomb(8).replace("\n", ", ").join("{}"),
    "cycle": "&a [*a]",
    "alias": "*a",
    "digits": "9" * 5000,
    "long": "x" * 100_000,
    "long list": "[" + "1, " * 20_000 + "]",
    "foreign": "!!python/name:os.system",
    "set": "!!set {a, b}",
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
