"""`tests/README.md`: the tests that keep the promises of README and docs exist."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROWS = [
    line
    for line in (TESTS / "README.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and "](" in line.rpartition(" | ")[2]
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_every_named_test_is_in_a_file_of_its_row() -> None:
    missing = []
    for row in ROWS:
        files = [TESTS / name for name in LINK.findall(row)]
        sources = [path.read_text("utf-8") for path in files if path.suffix == ".py"]
        missing += [
            name
            for name in re.findall(r"`(test_\w+)`", row)
            if not any(f"def {name}(" in source for source in sources)
        ]
        missing += [str(path) for path in files if not path.exists()]
    assert not missing
    assert len(ROWS) > 60
