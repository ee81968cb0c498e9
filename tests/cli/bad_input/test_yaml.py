"""YAML that is no YAML, or that is too large to be read."""

from pathlib import Path

import pytest

from harness.document import LARGEST
from tests.cli.conftest import Refused

pytestmark = pytest.mark.slow


CONTENTS: list[tuple[str | bytes, str]] = [
    ("a: " + "[" * 100_000, "nested too deep"),
    ("".join(" " * n + "a:\n" for n in range(900)), "nested too deep"),
    ("a: &x [*x]\n", "contains itself"),
    ("set:\n  seeds: 1\nset: {}\n", "line 3: set is written twice"),
    ("a: *nobody\n", "line 1: not valid YAML: found undefined alias"),
    ("a: " + "9" * 5000, "5000 digits"),
    ("set: {batch_size: 0x" + "f" * 5000 + "}", ""),
    ("a: !!int ''\n", "not valid YAML"),
    ("a: 2026-13-45\n", ""),
    ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
    ("<<: 3\na: 1\n", "not valid YAML"),
    ("? {a: 1}\n: 1\n", "a key must be a word"),
    ("a: 1\n--- \nb: 1\n", "another document"),
    ("", "must be a mapping of keys to values"),
    ("[1, 2]\n", "must be a mapping"),
    ("set: {}\n\tmethods: {}\n", "line 2: not valid YAML"),
    ("a: 1\nb: 'c\n", "line 3: not valid YAML"),
    (b"a: 1\n" * 4_000_000, f"20000000 bytes; at most {LARGEST}"),
    (b"\0" * 1000, "not valid YAML"),
    ("a: é\n".encode("latin-1"), "not UTF-8"),
    (b"a: \x1b[31m\n", "not valid YAML"),
]


@pytest.mark.parametrize(("content", "part"), CONTENTS, ids=range(len(CONTENTS)))
def test_content(content: str | bytes, part: str, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    refused(["plan", path], path, part)


def test_set_to_odd_yaml(refused: Refused) -> None:
    for value in (
        "[[[[1]]]]",
        "[" * 3000 + "]" * 3000,
        "&a [*a]",
        "9" * 5000,
        "2020-01-01",
        "!!python/name:os.system",
        "1\n--- 2",
        "{[a]: 1}",
        "null",
        "",
    ):
        target = ["simcse", "--encoder", "tiny-bert"]
        refused(["run", *target, "--set", f"learning_rate={value}"], "learning_rate")
