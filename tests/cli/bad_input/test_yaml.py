"""YAML that is no YAML, that stands for too much, or that is too large to be read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sweeps.spaces.document import DEEPEST, LARGEST, MOST_VALUES

pytestmark = pytest.mark.slow

Refused = Callable[..., None]


def bomb(levels: int) -> str:
    """Nine aliases of nine aliases of ...: 9**levels values in some lines."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def merge_bomb(levels: int) -> str:
    lines = ["m0: &m0 {a: 1, b: 2}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (bomb(30), f"more than {MOST_VALUES} values"),
        (merge_bomb(20), f"more than {MOST_VALUES} values"),
        ("a: " + "[" * 100_000, f"more than {DEEPEST} levels"),
        ("a: " + "[" * 60 + "]" * 60, f"more than {DEEPEST} levels"),
        ("a: " + "{b: " * 60 + "1" + "}" * 60, f"more than {DEEPEST} levels"),
        ("".join(" " * n + "a:\n" for n in range(200)), f"more than {DEEPEST} levels"),
        ("- " * 5000 + "a\n", f"more than {DEEPEST} levels"),
        ("a: [" + "1, " * MOST_VALUES + "1]", f"more than {MOST_VALUES} keys"),
        ("".join(f"k{n}: 1\n" for n in range(MOST_VALUES)), f"more than {MOST_VALUES} keys"),
        ("a: &x [*x]\n", "contains itself"),
        ("a: &x {b: {c: *x}}\n", "contains itself"),
        ("a: *nobody\n", "line 1: not valid YAML: found undefined alias"),
        ("a: " + "9" * 5000, "whole number of 5000 digits is beyond 64 bits"),
        ("a: 0x" + "f" * 5000, "beyond 64 bits"),
        ("a: 0b" + "1" * 30_000, "beyond 64 bits"),
        ("a: " + "1:" * 500 + "1", "beyond 64 bits"),
        ("a: !!int ''\n", "not valid YAML"),
        ("a: !!float abc\n", "not valid YAML"),
        ("a: !!timestamp x\n", "not valid YAML"),
        ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("<<: 3\na: 1\n", "not valid YAML"),
        ("? {a: 1}\n: 1\n", "a key must be a word"),
        ("a: 1\n--- \nb: 1\n", "another document"),
        ("%YAML 99.9\n---\na: 1\n", "not valid YAML"),
        ("# nothing\n", "must be a mapping"),
        ("null\n", "must be a mapping"),
        (" " * 1000, "must be a mapping"),
    ],
    ids=[
        "aliases", "merges", "brackets", "brackets-60", "braces-60", "blocks", "dashes",
        "long-list", "many-keys", "cycle", "far-cycle", "no-alias", "digits", "hexadecimal",
        "binary", "sexagesimal", "empty-int", "no-float", "no-time", "foreign", "merge-of-number",
        "mapping-as-key", "documents", "version", "comment", "null", "spaces",
    ],
)  # fmt: skip
def test_text(text: str, part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text, encoding="utf-8")
    refused(["plan", path], path, part)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"a: 1\n" * 4_000_000, f"20000000 bytes; at most {LARGEST}"),
        (b"#" * (LARGEST + 1), f"at most {LARGEST}"),
        (b"\0" * 1000, "not valid YAML"),
        ("a: é\n".encode("latin-1"), "not UTF-8"),
        ("a: 1\n".encode("utf-16"), "not UTF-8"),
        (b"PK\x03\x04\x14\x00\x06\x00\x08", "not valid YAML"),
        (b"a: \x1b[31m\n", "not valid YAML"),
    ],
    ids=["20-MB", "comment", "zeros", "latin", "utf-16", "zip", "escape"],
)
def test_bytes(content: bytes, part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "bytes.yaml"
    path.write_bytes(content)
    refused(["sweep", path], path, part)


@pytest.mark.parametrize(
    "value",
    [
        "[[[[1]]]]",
        "{a: {b: {c: 1}}}",
        "[" * 3000 + "]" * 3000,
        "{a: " * 200 + "1" + "}" * 200,
        bomb(8).replace("\n", ", ").join("{}"),
        "&a [*a]",
        "*a",
        "9" * 5000,
        "x" * 100_000,
        "[" + "1, " * 20_000 + "]",
        "!!python/name:os.system",
        "!!set {a, b}",
        "2020-01-01",
        "1\n--- 2",
        "{[a]: 1}",
        "null",
        "",
    ],
    ids=[
        "nested-list", "nested-map", "deep-list", "deep-map", "bomb", "cycle", "alias", "digits",
        "long", "long-list", "foreign", "set", "date", "documents", "list-as-key", "null", "empty",
    ],
)  # fmt: skip
def test_set_to_odd_yaml(value: str, refused: Refused) -> None:
    target = ["simcse", "--encoder", "tiny-bert"]
    refused(["run", *target, "--set", f"learning_rate={value}"], "learning_rate")
